"""Start time of each gradient: the update log matched with the workers' iterations."""

from __future__ import annotations

import numpy as np

from clustersim.results.updates import UpdateLog
from clustersim.results.worker_iterations import WorkerIterations

_ROUNDED_S = 2e-9
"""Tolerance: iterations are rounded to the nanosecond, the update log is not."""


def read_times(updates: UpdateLog, cycles: WorkerIterations, stashes: bool = False) -> np.ndarray:
    """Return the start time of each gradient's computation in seconds [num_gradients]; NaN where unknown.

    A worker that stashes weights has several gradients in flight. It starts each one when it has made the version that
    the gradient is computed on.
    """
    return _written_times(updates) if stashes else _begin_times(updates, cycles)


def _written_times(updates: UpdateLog) -> np.ndarray:
    written = zip(updates.worker, updates.version_written, updates.time_s, strict=True)
    since_s = {(worker, version): time_s for worker, version, time_s in written}
    read = zip(updates.worker, updates.version_read, strict=True)
    return np.array([since_s.get(where, np.nan) for where in read])


def _begin_times(updates: UpdateLog, cycles: WorkerIterations) -> np.ndarray:
    """Return the start time of the iteration of each gradient.

    A worker's gradients are applied in the order of its iterations, none before its backward pass has ended, and at
    least one of them without waiting: this determines the match. NaN where the iteration was not kept, or where the
    gradient is that of all workers.
    """
    result = np.full(len(updates), np.nan)
    worker, time_s = np.asarray(updates.worker), np.asarray(updates.time_s)
    rank, begin_s = np.asarray(cycles.rank, dtype=np.int64), np.asarray(cycles.begin_s)
    computed_s = np.asarray(cycles.computed_s)
    for one in np.unique(worker[worker >= 0]).tolist():
        rows, own = np.flatnonzero(worker == one), np.flatnonzero(rank == one)
        if not len(own):
            continue
        own = own[np.argsort(begin_s[own], kind="stable")]
        latest = np.searchsorted(computed_s[own], time_s[rows] + _ROUNDED_S, side="right") - 1
        known = latest >= 0
        if not known.any():
            continue
        shift = int((latest - np.arange(len(rows)))[known].min())
        place = np.arange(len(rows)) + shift
        kept = (place >= 0) & (place < len(own))
        result[rows[kept]] = begin_s[own[place[kept]]]
    return result
