"""Binomial trees rooted at rank 0: in every step twice as many ranks have the data, or half as many still have a part.

The steps are those of Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
in MPICH", 2005. For another root the caller numbers the ranks differently.
"""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import Cost, check_collective, log2_ceil
from clustersim.collectives.schedule import Schedule, Step


def tree_all_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule the reduction tree of FireCaffe: reduce the whole buffer up a binomial tree, broadcast it down.

    2 ceil(log2 n) steps; each rank but 0 sends its buffer up once, and a rank sends it down once to each
    of its children, rank 0 to ceil(log2 n) of them (Iandola et al., "FireCaffe", 2016).

    >>> [(t.src, t.dst) for t in tree_all_reduce(3, 8.0).transfers()]
    [(1, 0), (2, 0), (0, 2), (0, 1)]
    """
    return Schedule.concatenate([tree_reduce(num_ranks, num_bytes), tree_broadcast(num_ranks, num_bytes)])


def tree_all_reduce_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return 2 ceil(log2 n) messages of b bytes."""
    return Cost(2 * log2_ceil(num_ranks), 2 * log2_ceil(num_ranks) * num_bytes)


def tree_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a binomial reduction of the whole buffer to rank 0.

    ceil(log2 n) steps; each rank but 0 sends its buffer once.
    """
    check_collective(num_ranks, num_bytes)

    def step(number: int) -> Step:
        parent, child = _edges(num_ranks, 1 << number)
        return Step.of(child, parent, num_bytes, reduce=True)

    return Schedule(num_ranks, log2_ceil(num_ranks), step)


def tree_broadcast(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a binomial broadcast of rank 0's buffer.

    ceil(log2 n) steps; each rank but 0 receives the buffer once, rank 0 sends it in every step.
    """
    check_collective(num_ranks, num_bytes)
    num_steps = log2_ceil(num_ranks)

    def step(number: int) -> Step:
        parent, child = _edges(num_ranks, 1 << (num_steps - 1 - number))
        return Step.of(parent, child, num_bytes)

    return Schedule(num_ranks, num_steps, step)


def half_tree_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return ceil(log2 n) messages of b bytes: the cost of a binomial broadcast or reduction."""
    return Cost(log2_ceil(num_ranks), log2_ceil(num_ranks) * num_bytes)


def tree_scatter(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a binomial scatter of rank 0's buffer of `num_bytes`: rank r ends with chunk r.

    ceil(log2 n) steps; a rank sends on the chunks of its whole subtree, rank 0 (n - 1) / n of the buffer.
    """
    check_collective(num_ranks, num_bytes)
    num_steps = log2_ceil(num_ranks)

    def step(number: int) -> Step:
        distance = 1 << (num_steps - 1 - number)
        parent, child = _edges(num_ranks, distance)
        count = np.minimum(distance, num_ranks - child)
        return Step.of(parent, child, count * num_bytes / num_ranks, child, count)

    return Schedule(num_ranks, num_steps, step, granularity=num_ranks)


def tree_gather(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a binomial gather into rank 0's buffer of `num_bytes`: rank r starts with chunk r.

    ceil(log2 n) steps; a rank sends on the chunks of its whole subtree, rank 0 receives (n - 1) / n of the buffer.
    """
    check_collective(num_ranks, num_bytes)

    def step(number: int) -> Step:
        distance = 1 << number
        parent, child = _edges(num_ranks, distance)
        count = np.minimum(distance, num_ranks - child)
        return Step.of(child, parent, count * num_bytes / num_ranks, child, count)

    return Schedule(num_ranks, log2_ceil(num_ranks), step, granularity=num_ranks)


def tree_scatter_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return ceil(log2 n) messages that carry (n - 1) / n b bytes: the cost of a binomial scatter or gather.

    Rank 0 is on the slowest path: what it sends in a step is at least as much as any subtree still has to send.
    """
    return Cost(log2_ceil(num_ranks), (num_ranks - 1) * num_bytes / num_ranks)


def _edges(num_ranks: int, distance: int) -> tuple[np.ndarray, np.ndarray]:
    """Return parents and children of the tree's edges that span `distance` ranks."""
    child = np.arange(distance, num_ranks, 2 * distance)
    return child - distance, child
