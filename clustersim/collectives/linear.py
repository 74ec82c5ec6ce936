"""Collectives in a single step: the root exchanges messages with all ranks at once, or every rank with every other."""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import Cost, check_collective
from clustersim.collectives.schedule import Schedule, Step
from clustersim.collectives.server import all_pairs


def linear_broadcast(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a broadcast in 1 step: rank 0 sends its buffer to each other rank, n - 1 times."""
    check_collective(num_ranks, num_bytes)
    return _root_and_others(num_ranks, num_bytes, down=True)


def linear_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a reduction in 1 step: each other rank sends its buffer to rank 0, which adds them."""
    check_collective(num_ranks, num_bytes)
    return _root_and_others(num_ranks, num_bytes, down=False, reduce=True)


def linear_broadcast_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return 1 message, and (n - 1) b bytes through the root's link: the cost of a linear broadcast or reduction."""
    return Cost(min(1, num_ranks - 1), (num_ranks - 1) * num_bytes)


def linear_scatter(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a scatter of a buffer of `num_bytes` in 1 step: rank 0 sends chunk r to rank r."""
    check_collective(num_ranks, num_bytes)
    return _root_and_others(num_ranks, num_bytes / num_ranks, down=True, whole=False)


def linear_gather(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a gather into a buffer of `num_bytes` in 1 step: rank r sends chunk r to rank 0."""
    check_collective(num_ranks, num_bytes)
    return _root_and_others(num_ranks, num_bytes / num_ranks, down=False, whole=False)


def linear_all_to_all(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule an all-to-all in 1 step: each rank sends an n-th of its buffer of `num_bytes` to each other at once.

    Chunk i n + j is sent from rank i to rank j; each rank sends (n - 1) / n of its buffer in n - 1 messages.
    """
    check_collective(num_ranks, num_bytes)

    def step(number: int) -> Step:
        src, dst = all_pairs(num_ranks)
        return Step.of(src, dst, num_bytes / num_ranks, src * num_ranks + dst)

    return Schedule(num_ranks, min(1, num_ranks - 1), step, granularity=num_ranks**2)


def linear_scatter_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return 1 message, and (n - 1) / n b bytes through one link: a linear scatter, gather or all-to-all."""
    return Cost(min(1, num_ranks - 1), (num_ranks - 1) * num_bytes / num_ranks)


def _root_and_others(
    num_ranks: int, bytes_each: float, *, down: bool, reduce: bool = False, whole: bool = True
) -> Schedule:
    """Schedule one message between rank 0 and each other rank, of the whole buffer or of the other rank's chunk."""
    granularity = 1 if whole else num_ranks
    if num_ranks == 1:
        return Schedule.idle(1)
    others = np.arange(1, num_ranks)
    root = np.zeros_like(others)
    src, dst = (root, others) if down else (others, root)
    step = Step.of(src, dst, bytes_each, 0 if whole else others, reduce=reduce)
    return Schedule.from_steps(num_ranks, [step], granularity)
