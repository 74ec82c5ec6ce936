"""Pairwise exchange: in step s every rank sends to the rank s + 1 ahead, so no two messages share a link of a star.

Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
"""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import check_collective
from clustersim.collectives.schedule import Schedule, Step


def pairwise_all_to_all(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule an all-to-all: each rank sends an n-th of its buffer of `num_bytes` to each other, one after another.

    n - 1 steps; each rank sends (n - 1) / n of its buffer. Chunk i n + j is sent from rank i to rank j.
    """
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)

    def step(number: int) -> Step:
        dst = (rank + number + 1) % num_ranks
        return Step.of(rank, dst, num_bytes / num_ranks, rank * num_ranks + dst)

    return Schedule(num_ranks, num_ranks - 1, step, granularity=num_ranks**2)


def pairwise_reduce_scatter(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a reduce-scatter of a buffer of `num_bytes`: each rank sends the others their chunks, one after another.

    n - 1 steps; each rank sends (n - 1) / n of the buffer, and rank r ends with the sum of chunk r.
    """
    check_collective(num_ranks, num_bytes)
    rank = np.arange(num_ranks)

    def step(number: int) -> Step:
        dst = (rank + number + 1) % num_ranks
        return Step.of(rank, dst, num_bytes / num_ranks, dst, reduce=True)

    return Schedule(num_ranks, num_ranks - 1, step, granularity=num_ranks)
