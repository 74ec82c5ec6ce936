"""Collectives as gloo runs them, the library of `torch.distributed` on CPUs.

Read in gloo's sources (allreduce.cc, reduce.cc, broadcast.cc) and observed on the wire with PyTorch 2.13 (`make lab`).
Its all-gather is the ordinary ring. Segments of 1 MiB, of which two are in flight at a time so that one is added while
the other is sent, do not change which messages a rank sends, to which rank, and after which message; here an n-th of
the buffer is one message.
"""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import Cost, check_collective, log2_ceil
from clustersim.collectives.ring import half_ring_cost
from clustersim.collectives.schedule import Schedule, Step


def gloo_ring_all_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule gloo's all-reduce: a ring in which every rank sends to the one before it.

    2 (n - 1) steps; each rank sends 2 (n - 1) / n of the buffer, whatever its size.

    >>> [t.dst for t in gloo_ring_all_reduce(3, 12.0).transfers() if t.step == 0]
    [2, 0, 1]
    """
    return Schedule.concatenate(
        [_around_once(num_ranks, num_bytes, first, reduce=reduce) for first, reduce in ((1, True), (0, False))]
    )


def gloo_reduce_scatter(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule torch's reduce-scatter over gloo: an all-reduce of everything, of which each rank keeps its part.

    It sends twice as much as a ring reduce-scatter.
    """
    return gloo_ring_all_reduce(num_ranks, num_bytes)


def gloo_ring_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule gloo's reduction: a ring reduce-scatter, and then every other rank sends its n-th to rank 0."""
    added = _around_once(num_ranks, num_bytes, 1, reduce=True)
    if num_ranks == 1:
        return added
    others = np.arange(1, num_ranks)
    last = Step.of(others, np.zeros_like(others), num_bytes / num_ranks, others)
    return Schedule.concatenate([added, Schedule.from_steps(num_ranks, [last], num_ranks)])


def gloo_ring_reduce_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return half a ring's cost, and a message from each of the n - 1 others through rank 0's link."""
    last = Cost(min(1, num_ranks - 1), (num_ranks - 1) * num_bytes / num_ranks)
    return half_ring_cost(num_ranks, num_bytes).plus(last)


def gloo_tree_broadcast(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule gloo's broadcast from rank 0: a binomial tree in which a rank sends to all of its children at once.

    Rank v sends to v + 2^i for every 2^i above v, if there is such a rank; the messages share its link.

    >>> [(t.step, t.src, t.dst) for t in gloo_tree_broadcast(4, 8.0).transfers()]
    [(0, 0, 1), (0, 0, 2), (1, 1, 3)]
    """
    check_collective(num_ranks, num_bytes)
    if num_ranks == 1:
        return Schedule.idle(1)
    child = np.arange(1, num_ranks)
    parent = np.array([rank - (1 << (rank.bit_length() - 1)) for rank in child.tolist()])
    depth = np.array([rank.bit_count() for rank in parent.tolist()])  # a rank is as deep as it has ones
    steps = [Step.of(parent[depth == step], child[depth == step], num_bytes) for step in range(int(depth.max()) + 1)]
    return Schedule.from_steps(num_ranks, steps)


def gloo_tree_broadcast_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return the path from rank 0 over 1, 3, 7, ...: one message each, beside those to a rank's other children.

    With n = 2^d ranks that is d messages and d (d + 1) / 2 b bytes; a tree that sends one message after the other has d
    b.
    """
    on_the_way = [(1 << depth) - 1 for depth in range(log2_ceil(num_ranks))]
    children = [
        sum(rank + (1 << bit) < num_ranks for bit in range(rank.bit_length(), num_ranks.bit_length()))
        for rank in on_the_way
    ]
    return Cost(sum(count > 0 for count in children), sum(children) * num_bytes)


def _around_once(num_ranks: int, num_bytes: float, first: int, *, reduce: bool) -> Schedule:
    """Schedule n - 1 steps to the rank before; rank r sends chunk r + `first` first, and then the following chunks."""
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)
    return Schedule.repeat(
        num_steps=num_ranks - 1,
        src=rank,
        dst=(rank - 1) % num_ranks,
        num_bytes=num_bytes / num_ranks,
        chunk=lambda step: (rank + first + step) % num_ranks,
        reduce=lambda step: reduce,
    )
