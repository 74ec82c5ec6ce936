"""The order in which the workers of a point read and write weights, simulated from the first iteration on."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from clustersim.errors import InputError
from clustersim.execution.job import Job, OnProgress
from clustersim.learning import ReplicaEvents, SharedModelOrder, StageOrder, TrainingOrder
from clustersim.learning.order import APPLY
from clustersim.results import ALL_WORKERS, Update, UpdateLog
from clustersim.scenario import JobOfMany
from clustersim.shortcuts.identical_iterations import identical_iterations
from clustersim.simulate.concurrent_jobs import simulate_beside
from clustersim.simulate.replicate import SimulatedJob, may_repeat, simulate_job
from clustersim.simulate.setup import Setup
from clustersim.strategies import Strategy

Jobs: TypeAlias = Sequence[tuple[JobOfMany, Setup]]
"""All jobs on a cluster, each with its setup."""


def training_order(
    setup: Setup,
    replicate: int,
    num_updates: int,
    on_progress: OnProgress = lambda share: None,
    *,
    exact: bool = False,
    jobs: Jobs = (),
) -> TrainingOrder:
    """Return the order of the first `num_updates` updates of a replicate, which is simulated for it.

    Nothing is left out at the beginning: training starts when the job does, and times given for stragglers count from
    then on. Synchronous workers that train their own weights end their last iteration. `jobs` are all jobs on the
    cluster, where there are several: the order is that of the first one, beside the others.
    """
    check_order(setup)
    setup = setup.without_detail(replicate + 1)
    if _updates_by_stage(setup):
        return _stage_order(setup, replicate, num_updates, on_progress, exact, jobs)
    num_iterations = setup.point.strategy.iterations_of(num_updates, setup.num_workers)
    if not (exact or jobs) and may_repeat(setup):
        run = _repeated(setup, replicate, num_iterations, on_progress)
    else:
        run = _simulated(setup, replicate, num_iterations, on_progress, exact, jobs)
    order = setup.point.strategy.replica_order(run.job, run.end_s)
    if order is None:
        return _shared_order(setup.point.strategy, run, num_updates)
    return replace(order, events=_first_events(order.events, run, num_updates))


def gradients_per_update(setup: Setup) -> float:
    """Return how many workers' gradients an update has, on average."""
    gpus = setup.gpus(0)
    return setup.point.strategy.gradients_per_update(setup.num_workers, len(np.unique(setup.topology.gpu_hosts[gpus])))


class _FromStart(NamedTuple):
    """A job from its start at `start_s` seconds on.

    `end_s` [num_workers, num_iterations] is when all GPUs of each worker have ended each iteration, in seconds from the
    start. Workers at their own pace have logs instead, and no iterations here.
    """

    job: Job
    end_s: np.ndarray
    start_s: float = 0.0


def check_order(setup: Setup) -> None:
    """Raise InputError for a training in which it is not known which gradients make an update, or none is made."""
    strategy = setup.point.strategy
    if setup.point.optimizer.skipped:
        raise InputError(
            "with optimizer.skipped no update is made, so nothing is learnt; leave optimizer.skipped or learning out",
            got="optimizer.skipped: true",
            allowed="optimizer.skipped: false",
            key="learning",
        )
    has_own = type(strategy).replica_order is not Strategy.replica_order
    if strategy.round_length > 1 and not has_own:
        raise InputError(
            f"strategy {strategy.kind} does not exchange in every iteration, and does not say which weights its "
            "workers train; override `replica_order` in its class, or leave learning out",
            got=strategy.kind,
            allowed="a strategy with `replica_order`",
            key="learning",
        )


def _simulated(
    setup: Setup, replicate: int, num_iterations: int, on_progress: OnProgress, exact: bool, jobs: Jobs
) -> _FromStart:
    """Simulate so many iterations, or updates of workers at their own pace."""
    simulated, start_s = _simulate(setup, replicate, num_iterations, on_progress, exact, jobs)
    job = simulated.jobs[0]
    if job.window is not None:
        return _FromStart(job, np.zeros((job.num_ranks, 0)), start_s)
    return _FromStart(job, _ends_s(simulated)[:, :num_iterations] - start_s, start_s)


def _simulate(
    setup: Setup, replicate: int, num_iterations: int, on_progress: OnProgress, exact: bool, jobs: Jobs
) -> tuple[SimulatedJob, float]:
    """Return the simulated job, and when it started."""
    if jobs:
        return simulate_beside(jobs, replicate, exact, num_iterations, on_progress), jobs[0][0].start_s
    return simulate_job(setup, replicate, num_iterations, exact, 0.0, on_progress, from_start=True), 0.0


def _repeated(setup: Setup, replicate: int, num_iterations: int, on_progress: OnProgress) -> _FromStart:
    """Return iterations of which only the first ones are simulated, if all others are proved to be the same."""
    simulated = simulate_job(setup, replicate, 1, False, 0.0, on_progress, may_end_early=True)
    proof = identical_iterations(simulated.jobs, setup.laid_out, num_iterations)
    job = simulated.jobs[0]
    if proof is None or job.gradient_of:
        return _simulated(setup, replicate, num_iterations, on_progress, False, ())
    end_s = _ends_s(simulated)
    if not job.num_warm_up:  # only the second iteration is kept
        end_s = end_s - proof.period_s
    later_s = end_s[:, -1:] + proof.period_s * np.arange(1, 1 + max(0, num_iterations - end_s.shape[1]))
    return _FromStart(job, np.concatenate([end_s, later_s], axis=1)[:, :num_iterations])


def _ends_s(simulated: SimulatedJob) -> np.ndarray:
    """Return when each worker has ended each iteration that all have ended [num_workers, num_iterations].

    Where a worker is several GPUs, rank r of each job is one of those of worker r.
    """
    sheets = [job.times.end_s for job in simulated.jobs]
    num_iterations = min(sheet.shape[1] for sheet in sheets)
    end_s: np.ndarray = np.max([sheet[:, :num_iterations] for sheet in sheets], axis=0)
    num_ended = int(np.isnan(end_s).any(axis=0).argmax()) if np.isnan(end_s).any() else num_iterations
    return end_s[:, :num_ended]


def _shared_order(strategy: Strategy, run: _FromStart, num_updates: int) -> SharedModelOrder:
    job = run.job
    log = _synchronous_log(run) if job.window is None else _in_order_of_versions(job.updates, run.start_s)
    last = int(np.searchsorted(np.asarray(log.version_written), num_updates, side="right"))
    return SharedModelOrder(job.num_ranks, log.part(0, last), strategy.members(job.hosts))


def _synchronous_log(run: _FromStart) -> UpdateLog:
    """Return the updates of workers that are in step: each iteration is one, when its last worker has ended it.

    Where an iteration applies the gradient of an earlier one, the first iterations have none to apply, and are no
    update.
    """
    log, version_at = UpdateLog(), list[int]()  # versions at the beginning of each iteration
    for iteration, end_s in enumerate(run.end_s.max(axis=0).tolist()):
        version_at.append(len(log))
        computed = run.job.gradient_of.get(iteration, iteration)
        if computed >= 0:
            log.add(Update(end_s, ALL_WORKERS, version_at[computed], len(log) + 1, 1.0, True))
    return log


def _in_order_of_versions(log: UpdateLog, start_s: float) -> UpdateLog:
    """Return the rows by the versions that they write, each version in order of time, in seconds from the start.

    A gradient that comes too late for an update that is being made is dropped before that update is logged.
    """
    rows = np.argsort(np.asarray(log.version_written), kind="stable")
    columns = {name: array(column.typecode, np.asarray(column)[rows].tolist()) for name, column in vars(log).items()}
    columns["time_s"] = array("d", (np.asarray(columns["time_s"]) - start_s).tolist())
    return UpdateLog(**columns)


def _first_events(events: ReplicaEvents, run: _FromStart, num_updates: int) -> ReplicaEvents:
    """Return the events up to the last update, in seconds from the start; all of workers that are in step."""
    if run.job.window is None:
        return events
    last = int(np.flatnonzero(np.asarray(events.kind) == APPLY)[num_updates - 1]) + 1
    first = ReplicaEvents(**{name: column[:last] for name, column in vars(events).items()})
    first.time_s = array("d", (np.asarray(first.time_s) - run.start_s).tolist())
    return first


def _updates_by_stage(setup: Setup) -> bool:
    """Return whether stages of a pipeline update after every micro-batch."""
    return setup.laid_out is not None and setup.laid_out.plans[0].program.staleness is not None


def _stage_order(
    setup: Setup, replicate: int, num_updates: int, on_progress: OnProgress, exact: bool, jobs: Jobs
) -> StageOrder:
    """Return the order of updates of pipeline stages: a version exists when all ranks have made it."""
    laid_out = setup.laid_out
    assert laid_out is not None
    ages = [plan.program.staleness or 0 for plan in laid_out.plans]
    num_iterations = -(-(num_updates + max(ages)) // laid_out.updates_per_iteration)
    simulated, start_s = _simulate(setup, replicate, num_iterations, on_progress, exact, jobs)
    assert simulated.executor is not None
    made_s = np.zeros(num_updates)
    for rank in range(laid_out.grid.num_ranks):
        age = ages[laid_out.grid.stage(rank)]  # a rank begins with as many updates by no micro-batch
        own_s = simulated.executor.update_times_s(rank)[age : age + num_updates]
        made_s = np.maximum(made_s, own_s)
    return StageOrder(setup.num_workers, ages, made_s - start_s)
