"""One iteration of data-parallel training on one GPU: forward, backward with buckets, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from clustersim.program.buckets import Caps, assign_buckets


@dataclass(frozen=True)
class Bucket:
    """`num_gradients` gradients that travel together. They are ready `ready_s` seconds after backward began.

    That is at a slowdown of 1. The code that exchanges them copies them into a buffer and out of it for `copied_s`
    seconds, while backward goes on.
    """

    name: str
    num_bytes: float
    ready_s: float
    num_gradients: int = 1
    copied_s: float = 0.0


@dataclass(frozen=True)
class Iteration:
    """Seconds of one iteration at a slowdown of 1, and the buckets in the order in which they become ready."""

    forward_s: float
    backward_s: float
    update_s: float
    buckets: tuple[Bucket, ...]

    @property
    def compute_s(self) -> float:
        """The seconds of compute: forward, backward and the update."""
        return self.forward_s + self.backward_s + self.update_s


def plan_iteration(
    names: Sequence[str],
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    gradient_bytes: Sequence[float],
    update_s: float,
    caps: Caps,
    overlap: bool,
    owners: Mapping[int, int] | None = None,
) -> Iteration:
    """Return the iteration of layers in forward order; backward runs through them from last to first.

    All lists are [num_layers]. Without `overlap` every bucket is ready only when backward has ended. `owners` are the
    layers whose gradient is that of another layer, the owner: it is ready when the owner's is. No bucket is ready
    before the one in front of it.

    >>> plan = plan_iteration(["a", "b"], [1, 1], [2, 2], [8, 8], 0.5, (0.0,), overlap=True)
    >>> [(bucket.name, bucket.ready_s) for bucket in plan.buckets]
    [('b', 2.0), ('a', 4.0)]
    >>> plan = plan_iteration(["a", "b"], [1, 1], [2, 2], [8, 8], 0.5, (0.0,), overlap=True, owners={1: 0})
    >>> [(bucket.name, bucket.ready_s) for bucket in plan.buckets]
    [('b', 4.0), ('a', 4.0)]
    """
    order = range(len(names) - 1, -1, -1)
    backwards = [names[layer] for layer in order]
    ready, time_s = [], 0.0
    for layer in order:
        time_s += backward_s[layer]
        ready.append(time_s)
    for layer, owner in (owners or {}).items():
        ready[order.index(layer)] = ready[order.index(owner)]
    ready = list(accumulate(ready, max))
    sizes = [gradient_bytes[layer] for layer in order]
    buckets = []
    for members in assign_buckets(sizes, caps):
        first, last = backwards[members[0]], backwards[members[-1]]
        name = first if first == last else f"{first} to {last}"
        ready_s = ready[members[-1]] if overlap else time_s
        buckets.append(Bucket(name, sum(sizes[member] for member in members), ready_s, len(members)))
    return Iteration(sum(forward_s), time_s, update_s, tuple(buckets))
