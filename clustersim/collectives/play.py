"""Executes a schedule on real buffers, to check that it computes the collective of its name."""

from __future__ import annotations

import numpy as np

from clustersim.collectives.schedule import Schedule, Step
from clustersim.errors import InputError


def play(schedule: Schedule, buffers: np.ndarray) -> np.ndarray:
    """Return the ranks' buffers [num_ranks, width] after the schedule; `buffers` is not changed.

    A buffer is divided into `schedule.granularity` chunks as evenly as its width allows. Every message of a step
    carries the values of its sender before the step, and its receiver adds them or replaces its own. With `passes_on`
    it carries those that its sender has by then.

    >>> from clustersim.collectives import ALL_REDUCE
    >>> play(ALL_REDUCE["ring"](2, 8.0), np.array([[1.0, 2.0], [10.0, 20.0]])).tolist()
    [[11.0, 22.0], [11.0, 22.0]]
    """
    if buffers.ndim != 2 or len(buffers) != schedule.num_ranks:
        raise InputError(
            f"a schedule of {schedule.num_ranks} ranks needs buffers [num_ranks, width] "
            f"(got the shape {buffers.shape})",
            got=str(buffers.shape),
        )
    after = buffers.copy()
    chunk_of_column = _chunk_of_column(buffers.shape[1], schedule.granularity)
    for number in range(schedule.num_steps):
        before = after if schedule.passes_on else after.copy()
        _take(schedule.ranges(number), schedule.granularity, chunk_of_column, before, after)
    return after


def _chunk_of_column(width: int, granularity: int) -> np.ndarray:
    """Return the chunk of each column [width]."""
    parts = np.array_split(np.arange(width), granularity)
    return np.repeat(np.arange(granularity), [len(part) for part in parts])


def _take(step: Step, granularity: int, chunk_of_column: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
    for src, dst, _, chunk, num_chunks, reduce in zip(*(column.tolist() for column in step), strict=True):
        columns = (chunk_of_column - chunk) % granularity < num_chunks
        if reduce:
            after[dst, columns] += before[src, columns]
        else:
            after[dst, columns] = before[src, columns]
