"""The update log of PipeDream: stages update after every micro-batch, and do not wait for each other."""

from __future__ import annotations

from array import array

import numpy as np

from clustersim.execution.layout_executor import LayoutExecutor
from clustersim.parallelism import ModelLayout
from clustersim.results import WEIGHT_VERSIONS, UpdateLog


def micro_batch_updates(
    executor: LayoutExecutor, laid_out: ModelLayout, first: int, num_iterations: int
) -> UpdateLog | None:
    """Return the updates of every rank in `num_iterations` from `first` on; None if all ranks update together.

    Micro-batch n makes version n + 1 of the model, stage by stage. All ranks write that version, each at its own time,
    and each has computed its gradient on an older version: as many versions older as the staleness of its stage.
    """
    rows, each = [], laid_out.updates_per_iteration
    for rank in range(laid_out.grid.num_ranks):
        staleness = laid_out.plans[laid_out.grid.stage(rank)].program.staleness
        if staleness is None:
            return None
        time_s = np.array(executor.update_times_s(rank))
        written = np.arange(len(time_s)) - staleness + 1
        own = np.stack([time_s, np.full(len(time_s), rank), written - 1 - staleness, written])
        rows.append(own[:, first * each : (first + num_iterations) * each])
    return _log(np.concatenate(rows, axis=1))


def micro_batch_update_facts(laid_out: ModelLayout | None) -> dict[str, float]:
    """Return updates per iteration and the most weight versions of a stage, if every micro-batch updates."""
    ages = [plan.program.staleness for plan in laid_out.plans] if laid_out is not None else []
    known = [age for age in ages if age is not None]
    if laid_out is None or not known:
        return {}
    return {"updates_per_iteration": laid_out.updates_per_iteration, WEIGHT_VERSIONS: 1 + max(known)}


def repeated_updates(log: UpdateLog, num_ranks: int, each: int, num_iterations: int, period_s: float) -> UpdateLog:
    """Return the first iteration of a log, in which every rank makes `each` updates, `num_iterations` times."""
    first = np.argsort(np.asarray(log.worker), kind="stable").reshape(num_ranks, -1)[:, :each].ravel()
    rows = np.stack([log.time_s, log.worker, log.version_read, log.version_written])[:, first]
    later = np.array([[period_s], [0], [each], [each]])
    return _log(np.concatenate([rows + number * later for number in range(num_iterations)], axis=1))


def _log(rows: np.ndarray) -> UpdateLog:
    """Return a log of rows [time in seconds, worker, version read, version written; num_gradients], all applied."""
    time_s, *numbers = rows[:, np.lexsort((rows[1], rows[0]))]
    worker, read, written = (array("i", column.astype(np.int64).tolist()) for column in numbers)
    rates, accepted = array("d", np.ones(len(time_s)).tolist()), array("b", [1] * len(time_s))
    return UpdateLog(array("d", time_s.tolist()), worker, read, written, rates, accepted)
