"""The order in which the workers of a point read and write weights, simulated from the first iteration on."""

from __future__ import annotations

import numpy as np

from clustersim.execution.job import Job, OnProgress
from clustersim.learning import SharedModelOrder, TrainingOrder
from clustersim.results import ALL_WORKERS, Update, UpdateLog
from clustersim.simulate.replicate import simulate_job
from clustersim.simulate.setup import Setup
from clustersim.strategies.server_strategy import ServerStrategy


def training_order(
    setup: Setup, replicate: int, num_updates: int, on_progress: OnProgress = lambda share: None
) -> TrainingOrder:
    """Return the order of the first `num_updates` updates of a replicate, which is simulated for it.

    Nothing is left out at the beginning: training starts when the job does.
    """
    simulated = simulate_job(setup, replicate, num_updates, False, 0.0, on_progress)
    job = simulated.jobs[0]
    log = _synchronous_log(job, num_updates) if job.window is None else _first_updates(job.updates, num_updates)
    return SharedModelOrder(job.num_ranks, log, [(rank,) for rank in range(job.num_ranks)])


def gradients_per_update(setup: Setup) -> float:
    """Return how many workers' gradients an update has."""
    strategy = setup.point.strategy
    if isinstance(strategy, ServerStrategy):
        return float(strategy.update_rule(setup.num_workers).gradients_per_update)
    return float(setup.num_workers)


def _synchronous_log(job: Job, num_updates: int) -> UpdateLog:
    """Return the updates of workers that are in step: each iteration is one, when its last worker has ended it."""
    log = UpdateLog()
    ends_s = job.times.end_s[:, : job.times.num_begun].max(axis=0).tolist()
    for iteration, end_s in enumerate(ends_s[:num_updates]):
        read = max(0, job.gradient_of.get(iteration, iteration))
        log.add(Update(end_s, ALL_WORKERS, read, iteration + 1, 1.0, True))
    return log


def _first_updates(log: UpdateLog, num_updates: int) -> UpdateLog:
    """Return the rows of the first updates."""
    return log.part(0, int(np.searchsorted(np.asarray(log.version_written), num_updates, side="right")))
