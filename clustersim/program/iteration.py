"""One iteration of data-parallel training on one GPU: forward, backward with buckets, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from clustersim.program.buckets import Caps, assign_buckets
from clustersim.program.issue import FASTEST, NOT_ISSUED, IssueBuilder, IterationIssue, PassIssue, issue_times


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


class PlanIssue(NamedTuple):
    """What the host issues: each layer's forward and backward pass [num_layers], the exchange of a bucket, the update.

    `exchange_s` are the seconds in which it issues one exchange.
    """

    forward: Sequence[PassIssue]
    backward: Sequence[PassIssue]
    exchange_s: float = 0.0
    update: PassIssue = NOT_ISSUED


@dataclass(frozen=True)
class Iteration:
    """Seconds of kernels in one iteration at a slowdown of 1, and the buckets in the order in which they become ready.

    `issue` says when the host has issued these kernels; without it the GPU never waits for its host.
    """

    forward_s: float
    backward_s: float
    update_s: float
    buckets: tuple[Bucket, ...]
    issue: IterationIssue | None = None

    @property
    def compute_s(self) -> float:
        """The seconds of kernels: forward, backward and the update."""
        return self.forward_s + self.backward_s + self.update_s

    @cached_property
    def cuts_s(self) -> np.ndarray:
        """Seconds of kernels up to the end of forward, until each bucket is ready, and up to the end of backward."""
        ready_s = [self.forward_s + bucket.ready_s for bucket in self.buckets]
        return np.array([self.forward_s, *ready_s, self.forward_s + self.backward_s])

    @cached_property
    def parts_s(self) -> list[float]:
        """Seconds of kernels of forward, of backward until each bucket is ready, and of the rest of backward."""
        ready_s = [0.0, *(bucket.ready_s for bucket in self.buckets)]
        until_s = [until - since for since, until in pairwise(ready_s)]
        return [self.forward_s, *until_s, self.backward_s - ready_s[-1]]

    @cached_property
    def binding(self) -> IterationIssue | None:
        """The issue times that can keep the GPU waiting, at least where nothing runs twice as fast as on the mean GPU.

        None if there are none.
        """
        if self.issue is None:
            return None
        found = self.issue.that_bind(FASTEST)
        return found if len(found.passes) or len(found.update) else None


def plan_iteration(
    names: Sequence[str],
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    gradient_bytes: Sequence[float],
    update_s: float,
    caps: Caps,
    overlap: bool,
    owners: Mapping[int, int] | None = None,
    issue: PlanIssue | None = None,
    fixed_s: float = 0.0,
) -> Iteration:
    """Return the iteration of layers in forward order; backward runs through them from last to first.

    All lists are [num_layers]. Without `overlap` every bucket is ready only when backward has ended. `owners` are the
    layers whose gradient is that of another layer, the owner: it is ready when the owner's is. No bucket is ready
    before the one in front of it. The iteration begins with `fixed_s` seconds of compute that belong to no layer, in
    which the host issues nothing.

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
    buckets, lasts = [], []
    for members in assign_buckets(sizes, caps):
        first, last = backwards[members[0]], backwards[members[-1]]
        name = first if first == last else f"{first} to {last}"
        ready_s = ready[members[-1]] if overlap else time_s
        buckets.append(Bucket(name, sum(sizes[member] for member in members), ready_s, len(members)))
        lasts.append(ready.index(ready[members[-1]]) if overlap else len(order) - 1)
    times = None
    if issue is not None:
        backward = [(backward_s[layer], issue.backward[layer]) for layer in order]
        forward = [(fixed_s, PassIssue(fixed_s)), *zip(forward_s, issue.forward, strict=True)]
        times = _issue_times(issue, forward, backward, lasts, update_s)
    return Iteration(fixed_s + sum(forward_s), time_s, update_s, tuple(buckets), times)


def _issue_times(
    issue: PlanIssue,
    forward: Sequence[tuple[float, PassIssue]],
    backward: Sequence[tuple[float, PassIssue]],
    lasts: Sequence[int],
    update_s: float,
) -> IterationIssue:
    """Return the issue times of passes, in the order in which they run, each with the seconds of its kernels.

    `lasts` [num_buckets] are the numbers of the last backward pass before each bucket is exchanged. The work before the
    call of an exchange is that of `Iteration.cuts_s`, to the last bit.
    """
    builder, num_before = IssueBuilder(), []
    for seconds, each in forward:
        builder.add(seconds, each)
    num_before.append(len(builder))
    bucket, backward_s = 0, 0.0
    forward_s = builder.work_s = sum(seconds for seconds, _ in forward)
    for number, (seconds, each) in enumerate(backward):
        builder.add(seconds, each)
        backward_s += seconds
        builder.work_s = forward_s + backward_s
        while bucket < len(lasts) and lasts[bucket] == number:
            builder.call(issue.exchange_s)
            num_before.append(len(builder))
            bucket += 1
    num_before.append(len(builder))
    return IterationIssue(builder.build(), np.array(num_before), issue_times([(update_s, issue.update)]))
