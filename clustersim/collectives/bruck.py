"""Bruck's all-gather and the dissemination barrier: partners 1, 2, 4, ... ranks away, modulo n, for any n."""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import Cost, check_collective, log2_ceil
from clustersim.collectives.schedule import Schedule, Step


def bruck_all_gather(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule an all-gather into a buffer of `num_bytes`: in step s a rank sends all that it has 2^s ranks back.

    ceil(log2 n) steps; each rank sends (n - 1) / n of the gathered buffer (Bruck et al., "Efficient algorithms
    for all-to-all communications in multiport message-passing systems", 1997).
    """
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)

    def step(number: int) -> Step:
        distance = 1 << number
        count = min(distance, num_ranks - distance)
        return Step.of(rank, (rank - distance) % num_ranks, count * num_bytes / num_ranks, rank, count)

    return Schedule(num_ranks, log2_ceil(num_ranks), step, granularity=num_ranks)


def bruck_all_gather_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return ceil(log2 n) messages that carry (n - 1) / n b bytes."""
    return Cost(log2_ceil(num_ranks), (num_ranks - 1) * num_bytes / num_ranks)


def dissemination_barrier(num_ranks: int, num_bytes: float = 0.0) -> Schedule:
    """Schedule a barrier: in step s a rank signals to the rank 2^s ahead that it and all ranks before it have arrived.

    ceil(log2 n) steps; a rank sends one message per step, of `num_bytes` each, which is 0 for a pure barrier (Hensgen,
    Finkel and Manber, "Two algorithms for barrier synchronization", 1988).
    """
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)

    def step(number: int) -> Step:
        return Step.of(rank, (rank + (1 << number)) % num_ranks, num_bytes, reduce=True)

    return Schedule(num_ranks, log2_ceil(num_ranks), step)


def dissemination_barrier_cost(num_ranks: int, num_bytes: float = 0.0) -> Cost:
    """Return ceil(log2 n) messages of b bytes."""
    return Cost(log2_ceil(num_ranks), log2_ceil(num_ranks) * num_bytes)
