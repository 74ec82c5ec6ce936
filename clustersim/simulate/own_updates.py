"""The update log of stages that update by every micro-batch, one after the other and without waiting for each other."""

from __future__ import annotations

from array import array

import numpy as np

from clustersim.execution.layout_executor import LayoutExecutor
from clustersim.parallelism import ModelLayout
from clustersim.results import WEIGHT_VERSIONS, UpdateLog


def own_updates(executor: LayoutExecutor, laid_out: ModelLayout, first: int, num_iterations: int) -> UpdateLog | None:
    """Return every rank's updates in so many iterations from the `first` on; None where all ranks update together.

    Version n + 1 of the model is what micro-batch n makes, stage by stage: its ranks all write that version, each when
    it comes to it, and each has computed its gradient on the version that its staleness says.
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


def facts_of(laid_out: ModelLayout | None) -> dict[str, float]:
    """Return how many updates an iteration makes and how many versions of weights there are at most, where it is so."""
    ages = [plan.program.staleness for plan in laid_out.plans] if laid_out is not None else []
    known = [age for age in ages if age is not None]
    if laid_out is None or not known:
        return {}
    return {"updates_per_iteration": laid_out.updates_per_iteration, WEIGHT_VERSIONS: 1 + max(known)}


def come_again(log: UpdateLog, num_ranks: int, each: int, num_iterations: int, period_s: float) -> UpdateLog:
    """Return the updates of so many iterations like the first one of a log, in which every rank has made `each`."""
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
