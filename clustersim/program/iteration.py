"""One iteration of data-parallel training on one GPU: forward, backward with buckets, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from clustersim.program.buckets import Caps, assign_buckets


@dataclass(frozen=True)
class Bucket:
    """Gradients that travel together, so many. They are ready `ready_s` after backward began, at a slowdown of 1.

    Those who exchange them copy them for `copied_s` beside, in and out of what they travel in.
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
    """Plan an iteration from layers in forward order; backward runs through them from last to first.

    Without `overlap` every bucket is ready only when backward has ended. A layer whose gradient is that of another has
    it when its owner has, and no bucket is sent before the one in front of it.

    >>> plan = plan_iteration(["a", "b"], [1, 1], [2, 2], [8, 8], 0.5, (0.0,), overlap=True)
    >>> [(bucket.name, bucket.ready_s) for bucket in plan.buckets]
    [('b', 2.0), ('a', 4.0)]
    >>> plan = plan_iteration(["a", "b"], [1, 1], [2, 2], [8, 8], 0.5, (0.0,), overlap=True, owners={1: 0})
    >>> [(bucket.name, bucket.ready_s) for bucket in plan.buckets]
    [('b', 4.0), ('a', 4.0)]
    """
    order = range(len(names) - 1, -1, -1)
    backwards = [names[layer] for layer in order]
    ready, time = [], 0.0
    for layer in order:
        time += backward_s[layer]
        ready.append(time)
    for layer, owner in (owners or {}).items():
        ready[order.index(layer)] = ready[order.index(owner)]
    ready = list(accumulate(ready, max))
    sizes = [gradient_bytes[layer] for layer in order]
    buckets = []
    for members in assign_buckets(sizes, caps):
        first, last = backwards[members[0]], backwards[members[-1]]
        name = first if first == last else f"{first} to {last}"
        when = ready[members[-1]] if overlap else time
        buckets.append(Bucket(name, sum(sizes[member] for member in members), when, len(members)))
    return Iteration(sum(forward_s), time, update_s, tuple(buckets))
