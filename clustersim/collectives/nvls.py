"""All-reduce in a switch that reduces (NVLink SHARP): a rank sends the buffer once and receives the sum once."""

from __future__ import annotations

import math

import numpy as np

from clustersim.collectives.chain import PIECE_BYTES
from clustersim.collectives.checks import Cost, check_at_least_one, check_collective
from clustersim.collectives.schedule import Schedule, Step

_STAGES = 4
"""Stages of a piece: read and reduced, sent to its owners, written by them, multicast."""
_MOST_PIECES = 32


def nvls_all_reduce(num_ranks: int, num_bytes: float, num_chunks: int | None = None) -> Schedule:
    """Schedule an all-reduce among ranks 0 to n - 1 through the switch between them, which is rank n.

    Each rank owns an n-th of the buffer. It reads the sum of its part, which the switch reduces from the buffers of all
    ranks, and writes it once, and the switch multicasts it to all: a rank sends and receives 1 + 1 / n of the buffer,
    but 2 (n - 1) / n in a ring. The four stages of `num_chunks` pieces follow one another, num_chunks + 3 steps in all,
    so that both directions of a link are always in use; by default sqrt(b / 512 KiB) pieces, 32 at most. That is about
    the number with the least time if a step takes 4 us beside its bytes and a link carries 400 GB/s: p minimises (p +
    3) (4 us + (1 + 1 / n) b / p / rate).

    NVIDIA calls it NVLink SHARP and NCCL calls it NVLS (recalled: NVIDIA, "The NVLink-Network Switch", Hot Chips
    34, 2022, and NCCL's `src/device/all_reduce.h`). The switch's own time to reduce is not known and left out.

    >>> nvls_all_reduce(8, 8.0, num_chunks=1).num_steps
    4
    """
    check_collective(num_ranks, num_bytes)
    pieces = _num_chunks(num_bytes, num_chunks)
    if num_ranks == 1:
        return Schedule.idle(1, pieces)
    rank, switch = np.arange(num_ranks), np.full(num_ranks, num_ranks)
    whole, part = num_bytes / pieces, num_bytes / pieces / num_ranks

    def step(number: int) -> Step:
        read, given, written, out = (number - stage for stage in range(_STAGES))
        stages = [
            (read, Step.of(rank, switch, whole, read * num_ranks, num_ranks, reduce=True)),
            (given, Step.of(switch, rank, part, given * num_ranks + rank)),
            (written, Step.of(rank, switch, part, written * num_ranks + rank)),
            (out, Step.of(switch, rank, whole, out * num_ranks, num_ranks)),
        ]
        columns = zip(*(stage for piece, stage in stages if 0 <= piece < pieces), strict=True)
        return Step(*(np.concatenate(column) for column in columns))

    def busy(number: int) -> tuple[int, int]:
        """Return the first and the last stage with a piece."""
        return max(0, number - pieces + 1), min(number, _STAGES - 1)

    return Schedule(num_ranks + 1, pieces + _STAGES - 1, step, pieces * num_ranks, pattern=busy)


def nvls_all_reduce_cost(num_ranks: int, num_bytes: float, num_chunks: int | None = None) -> Cost:
    """Return num_chunks + 3 messages between a rank and the switch, and the bytes on the fuller direction of its link.

    (1 + 1 / n) b / num_chunks in a step with pieces in all four stages, and less in the first three and the last three.
    The latency is that from a rank to the switch, and the rate that of a rank's link; the switch has one for each rank.

    >>> nvls_all_reduce_cost(8, 8e9, num_chunks=1)
    Cost(num_messages=4, num_bytes=18000000000.0)
    """
    if num_ranks == 1:
        return Cost(0, 0.0)
    pieces = _num_chunks(num_bytes, num_chunks)
    whole, part = num_bytes / pieces, num_bytes / pieces / num_ranks
    total = 0.0
    for number in range(pieces + _STAGES - 1):
        read, given, written, out = (0 <= number - stage < pieces for stage in range(_STAGES))
        total += max(read * whole + written * part, given * part + out * whole)
    return Cost(pieces + _STAGES - 1, total)


def _num_chunks(num_bytes: float, num_chunks: int | None) -> int:
    quickest = max(1, min(round(math.sqrt(num_bytes / PIECE_BYTES)), _MOST_PIECES))
    pieces = quickest if num_chunks is None else num_chunks
    check_at_least_one("num_chunks", pieces)
    return pieces
