"""Simulates one replicate of a point that has one job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import simpy

from clustersim.execution.job import Job, OnProgress
from clustersim.execution.layout_executor import LayoutExecutor
from clustersim.network import Environment, Network
from clustersim.parallelism import ModelLayout
from clustersim.results import Timesheet
from clustersim.shortcuts import Shortcut
from clustersim.shortcuts.identical_iterations import (
    NO_WARM_UP,
    identical_iterations,
    may_begin_idle,
    second_like_the_first,
)
from clustersim.simulate.build import build_job, build_network, disturb_links
from clustersim.simulate.layout_jobs import copy_first_rank, jobs_of, joint_outcome, stages_kept_together
from clustersim.simulate.outcome import Outcome, outcome_of
from clustersim.simulate.setup import Setup
from clustersim.stragglers import are_steady, delayed, has_given_times


def simulate_replicate(setup: Setup, replicate: int, exact: bool, on_progress: OnProgress) -> Outcome:
    """Simulate one replicate: all its iterations, or one if all others are proved to be the same."""
    point = setup.point
    if not exact and may_repeat(setup):
        repeated = _one_iteration_repeated(setup, replicate, on_progress)
        if repeated is not None:
            return repeated
    return _all_iterations(setup, replicate, point.num_iterations, exact, on_progress)


def may_repeat(setup: Setup) -> bool:
    """Return whether all iterations of a point may turn out to be the same: nothing is random, nothing in flight."""
    point, laid_out = setup.point, setup.laid_out
    is_alike = point.strategy.allows(Shortcut.IDENTICAL_ITERATIONS) and point.strategy.round_length == 1
    is_steady = is_alike and are_steady(point.stragglers) and point.input is None
    return is_steady and may_begin_idle(laid_out) and (laid_out is None or not laid_out.num_settling)


def _one_iteration_repeated(setup: Setup, replicate: int, on_progress: OnProgress) -> Outcome | None:
    """Return the outcome of one simulated iteration repeated for the whole run; None if the others may differ.

    It is the first iteration if the second one is the same, else the second.
    """
    num, laid_out = setup.point.num_iterations, setup.laid_out
    simulated = simulate_job(setup, replicate, 1, False, 0.0, on_progress, may_end_early=True)
    outcome = _outcome(simulated, laid_out)
    if not simulated.jobs[0].num_warm_up:
        outcome = replace(outcome, shortcuts=(*outcome.shortcuts, NO_WARM_UP))
        on_progress(1.0)
    if num == 1:
        return outcome
    proof = identical_iterations(simulated.jobs, laid_out, num)
    return None if proof is None else outcome.repeated(num, proof.period_s, proof.note)


def _all_iterations(setup: Setup, replicate: int, num_iterations: int, exact: bool, on_progress: OnProgress) -> Outcome:
    origin_s = 0.0
    if has_given_times(setup.point.stragglers):
        origin_s = _measured_from_s(simulate_job(setup, replicate, 1, exact, float("inf"), lambda share: None))
    return _outcome(simulate_job(setup, replicate, num_iterations, exact, origin_s, on_progress), setup.laid_out)


class SimulatedJob(NamedTuple):
    """A job that has been simulated: as several jobs by an executor, if a copy of the model spans several GPUs."""

    gpus: np.ndarray
    jobs: list[Job]
    executor: LayoutExecutor | None


def simulate_job(
    setup: Setup,
    replicate: int,
    num_iterations: int,
    exact: bool,
    straggler_origin_s: float,
    on_progress: OnProgress,
    may_end_early: bool = False,
    from_start: bool = False,
) -> SimulatedJob:
    """Simulate the job of a replicate; times given for stragglers count from `straggler_origin_s` on.

    Ranks that do the same are simulated as one if they exchange gradients only with each other, nothing is random and
    they turn out to have kept together. With `may_end_early`, only the first iteration is simulated if the next one is
    the same. With `from_start`, a window of updates opens before the first one, and the run ends when it closes.
    """
    network = build_network(Environment(), setup.topology, setup.transport, exact, setup.numba_from_messages)
    strategy, job = setup.point.strategy, build_job(network, setup, replicate, num_iterations, straggler_origin_s)
    disturb_links(network, delayed(setup.point.stragglers, straggler_origin_s), job.seed, job.gpus)
    if setup.laid_out is None:
        over = strategy.start(job, on_progress)
        if not (may_end_early and _first_iteration_suffices([job], setup)):
            network.env.run(_end_of(job, over, from_start))
        return SimulatedJob(job.gpus, [job], None)

    def new_network() -> Network:
        return build_network(Environment(), setup.topology, setup.transport, exact, setup.numba_from_messages)

    do_the_same = not exact and not setup.point.stragglers and setup.point.input is None
    if do_the_same and strategy.allows(Shortcut.FOLDED_LAYOUTS):
        for folds in (True, False):
            simulated = _simulate_layout(setup, job, new_network, on_progress, folds, may_end_early, from_start)
            if _has_kept_together(simulated, setup.laid_out):
                return simulated
            job = build_job(new_network(), setup, replicate, num_iterations, straggler_origin_s)
            if not simulated.jobs[0].is_folded:
                break
    return _simulate_layout(setup, job, None, on_progress, may_end_early=may_end_early, from_start=from_start)


def _has_kept_together(simulated: SimulatedJob, laid_out: ModelLayout) -> bool:
    """Return whether ranks that were assumed to do the same at the same time did so, as far as is known."""
    if simulated.executor is None or not simulated.executor.stayed_in_sync:
        return simulated.executor is None
    return not simulated.jobs[0].is_folded or stages_kept_together(simulated.jobs, laid_out)


def _simulate_layout(
    setup: Setup,
    job: Job,
    new_network: Callable[[], Network] | None,
    on_progress: OnProgress,
    folds: bool = True,
    may_end_early: bool = False,
    from_start: bool = False,
) -> SimulatedJob:
    """Simulate a job whose model copies span several GPUs; with shortcuts if `new_network` is given, as `jobs_of`."""
    strategy = setup.point.strategy
    jobs, executor = layout_jobs_of(setup, job, new_network, folds)
    over = strategy.start_layout(jobs, on_progress)
    if jobs[0].num_after:
        executor.recorder.last_iteration = jobs[0].num_warm_up + jobs[0].num_iterations - 1
    if may_end_early and _first_iteration_suffices(jobs, setup, executor):
        return SimulatedJob(job.gpus, jobs, executor)
    job.env.run(_end_of(jobs[0], over, from_start))
    if jobs[0].window is None:
        job.env.run(job.env.all_of(executor.in_flight()))
    for each in jobs:
        each.times = _complete_times(each, each.times, executor)
    return SimulatedJob(job.gpus, jobs, executor)


def _end_of(job: Job, over: simpy.Event, from_start: bool) -> simpy.Event:
    """Return the event at which a job that has just started ends: `over`, or `from_start` the close of its window.

    Compiled workers have ended already.
    """
    window = job.window
    if not from_start or window is None or window.num_updates:
        return over
    window.open_first()
    return window.closed


def _first_iteration_suffices(jobs: list[Job], setup: Setup, executor: LayoutExecutor | None = None) -> bool:
    """Run jobs until their first iteration is over; return whether the next one is the same, and then keep it alone.

    By then, no later message has been sent.
    """
    if any(job.num_warm_up != 1 or job.num_after or job.window is not None for job in jobs):
        return False
    firsts_over = [job.env.event() for job in jobs]
    for job, first_over in zip(jobs, firsts_over, strict=True):
        job.first_iteration_done = first_over
    for first_over in firsts_over:
        first_over.env.run(first_over)
    firsts = [_complete_times(job, job.times.select(slice(0, 1)), executor) for job in jobs]
    seconds = second_like_the_first(jobs, firsts, setup.laid_out)
    if seconds is None:
        return False
    cycle_s = max(float(first.end_s.max()) for first in firsts)
    for job, job.times in zip(jobs, seconds, strict=True):
        job.num_warm_up = 0
        if executor is not None and job.ranks is not None:
            for rank, begin_s in zip(job.ranks.tolist(), job.times.begin_s[:, 0].tolist(), strict=True):
                executor.recorder.shift(rank, cycle_s, begin_s)
    return True


def _complete_times(job: Job, times: Timesheet, executor: LayoutExecutor | None) -> Timesheet:
    """Return the times of all ranks of a job, with the cycles that the executor left out and with the folded ranks."""
    if executor is not None and (left_out := executor.stage_programs.skipped):
        times = times.delayed([gap.at_s for gap in left_out], [gap.seconds for gap in left_out])
    if job.is_folded:
        copy_first_rank(times)
    return times


def layout_jobs_of(
    setup: Setup, job: Job, new_network: Callable[[], Network] | None, folds: bool = True
) -> tuple[list[Job], LayoutExecutor]:
    """Return a job for each place in a copy of the model, and their executor; parameters as of `jobs_of`."""
    assert setup.laid_out is not None
    is_grid = setup.point.parallelism.kind == "grid"  # other layouts exchange more than gradients between copies
    algorithm = getattr(setup.point.strategy, "algorithm", "auto") if is_grid else "auto"
    return jobs_of(job, setup.laid_out, algorithm, new_network, folds, setup.detail)


def _outcome(simulated: SimulatedJob, laid_out: ModelLayout | None) -> Outcome:
    if laid_out is None or simulated.executor is None:
        return outcome_of(simulated.jobs[0])
    return joint_outcome(simulated.jobs, laid_out, simulated.executor, simulated.gpus)


def _measured_from_s(simulated: SimulatedJob) -> float:
    """Return when the measured part of a job begins; it does not depend on what happens afterwards."""
    job = simulated.jobs[0]
    if job.window is not None:
        return job.window.start_s
    return min(float(each.times.begin_s[:, each.num_warm_up].min()) for each in simulated.jobs)
