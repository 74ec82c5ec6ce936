"""All-reduce through servers: every rank sends to the rank that adds, and receives the sum."""

from __future__ import annotations

import numpy as np

from clustersim.collectives.checks import Cost, check_collective
from clustersim.collectives.schedule import Schedule, Step


def server_all_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule an all-reduce through a central server: rank 0 receives all buffers, adds, and sends the sum back.

    2 steps; rank 0 sends and receives (n - 1) times the buffer, every other rank once. It is the
    parameter server of Iandola et al., "FireCaffe", 2016, on a rank that also trains.
    """
    check_collective(num_ranks, num_bytes)
    if num_ranks == 1:
        return Schedule.idle(1)
    others = np.arange(1, num_ranks)
    up = Step.of(others, np.zeros_like(others), num_bytes, reduce=True)
    down = Step.of(np.zeros_like(others), others, num_bytes)
    return Schedule.from_steps(num_ranks, [up, down])


def server_all_reduce_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return 2 messages, and 2 (n - 1) b bytes through the server's link."""
    return Cost(2, 2 * (num_ranks - 1) * num_bytes) if num_ranks > 1 else Cost(0, 0.0)


def sharded_server_all_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule an all-reduce in which every rank is the server of one n-th of the buffer.

    2 steps; each rank sends 2 (n - 1) / n of the buffer, in 2 (n - 1) messages (the layout of Li et al.,
    "Scaling distributed machine learning with the parameter server", 2014, with a server on every worker).
    """
    check_collective(num_ranks, num_bytes)
    if num_ranks == 1:
        return Schedule.idle(1)
    share = num_bytes / num_ranks

    def step(number: int) -> Step:
        src, dst = all_pairs(num_ranks)
        return Step.of(src, dst, share, chunk=dst if number == 0 else src, reduce=number == 0)

    return Schedule(num_ranks, 2, step, granularity=num_ranks)


def sharded_server_all_reduce_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return 2 messages, and 2 (n - 1) / n b bytes through every link."""
    return Cost(2, 2 * (num_ranks - 1) * num_bytes / num_ranks) if num_ranks > 1 else Cost(0, 0.0)


def all_pairs(num_ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all ordered pairs of different ranks, as columns [num_ranks x (num_ranks - 1)].

    >>> [column.tolist() for column in all_pairs(2)]
    [[0, 1], [1, 0]]
    """
    src = np.repeat(np.arange(num_ranks), num_ranks - 1)
    return src, (src + np.tile(np.arange(1, num_ranks), num_ranks)) % num_ranks
