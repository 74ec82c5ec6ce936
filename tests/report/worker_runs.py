"""Hand-made runs of workers with iterations and updates, for which the correct figure is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clustersim.results import NO_RANK, Run, Spans, Sweep, Update, UpdateLog, WorkerIterations, staleness_summary
from tests.report.synthetic import make_run, make_sweep

COMMUNICATION_S = 0.1


def in_lockstep(compute_s, begin_late_s=None) -> WorkerIterations:
    """Return the iterations of synchronous workers; `compute_s` is [num_iterations][num_ranks] seconds."""
    cycles, start_s = WorkerIterations(), 0.0
    for iteration, row in enumerate(compute_s):
        late = begin_late_s[iteration] if begin_late_s is not None else [0.0] * len(row)
        ready = [start_s + late_s + seconds for late_s, seconds in zip(late, row, strict=True)]
        last = int(np.argmax(ready))
        end_s = ready[last] + COMMUNICATION_S
        for rank in range(len(row)):
            waiting_s = ready[last] - ready[rank]
            awaited = NO_RANK if rank == last or waiting_s == 0.0 else last
            add(cycles, rank, iteration, start_s + late[rank], ready[rank], end_s, waiting_s, awaited)
        start_s = end_s
    return cycles


def alone(compute_s, num_iterations) -> WorkerIterations:
    """Return the iterations of workers without any exchange; `compute_s` [num_ranks] is the time of one iteration."""
    rows = sorted(
        (number * seconds, rank, number) for rank, seconds in enumerate(compute_s) for number in range(num_iterations)
    )
    cycles = WorkerIterations()
    for begin_s, rank, number in rows:
        end_s = begin_s + compute_s[rank]
        add(cycles, rank, number, begin_s, end_s, end_s, 0.0, NO_RANK)
    return cycles


def add(cycles, rank, iteration, begin_s, computed_s, end_s, waiting_s, awaited):
    row = (rank, iteration, begin_s, computed_s, end_s, end_s, waiting_s, awaited)
    for column, value in zip(vars(cycles).values(), row, strict=True):
        column.append(value)


def run_of(cycles, updates=None, **parts) -> Run:
    """Return a run with these iterations, and updates as rows (time_s, worker, read, written, rate, accepted)."""
    log = UpdateLog()
    for row in updates or ():
        log.add(Update(*row))
    num_gpus = 1 + max(cycles.rank)
    stale = staleness_summary(log.staleness[log.is_accepted]) if updates else staleness_summary([0])
    counts = {"applied": int(log.is_accepted.sum()), "dropped": int((~log.is_accepted).sum())}
    fields = {"cycles": cycles, "updates": log, "staleness": stale, "gradients": counts, **parts}
    return replace(make_run(num_gpus), **fields)


def sweep_of(*runs, **parts) -> Sweep:
    return replace(make_sweep((1,)), runs=runs, **parts)


def round_robin(num_workers, num_rounds, compute_s=1.0):
    """Return iterations and updates of workers in round-robin order: staleness n - 1."""
    cycles, updates, version = WorkerIterations(), [], 0
    read = [0] * num_workers
    begin_s = [0.0] * num_workers
    for number in range(num_rounds):
        for rank in range(num_workers):
            met_s = compute_s * (number + (rank + 1) / num_workers)
            add(cycles, rank, number, begin_s[rank], met_s, met_s, 0.0, NO_RANK)
            updates.append((met_s, rank, read[rank], version + 1, 1.0, True))
            version += 1
            read[rank], begin_s[rank] = version, met_s
    return cycles, updates


def spans_of(cycles) -> Spans:
    """Return a forward and a backward span for each iteration."""
    spans = Spans()
    for row in cycles.rows():
        middle_s = (row.begin_s + row.computed_s) / 2
        spans.add("forward", row.rank, 0, row.begin_s, middle_s)
        spans.add("backward", row.rank, 0, middle_s, row.computed_s)
    return spans
