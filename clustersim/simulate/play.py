"""Puts a job on the clock and lets it run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import simpy

from clustersim.communicator.algorithm import as_seen
from clustersim.devices import InputStage
from clustersim.errors import InputError
from clustersim.execution.job import Job, OnProgress
from clustersim.execution.layout_executor import LayoutExecutor
from clustersim.hardware.sheet import Transport
from clustersim.network import Environment, Network
from clustersim.parallelism import LaidOut
from clustersim.program import Iteration
from clustersim.results import Timesheet
from clustersim.shortcuts.identical_iterations import is_ever_alone, period_s, second_like_the_first
from clustersim.simulate.layout_jobs import jobs_of, joined, kept_together, note_for_all
from clustersim.simulate.outcome import Outcome, outcome_of
from clustersim.simulate.setup import Setup
from clustersim.simulate.trouble import disturb_links
from clustersim.stragglers import Draws, are_steady, delayed, has_given_times, paces
from clustersim.strategies.collective_strategy import CollectiveStrategy
from clustersim.topology import Topology
from clustersim.topology.through_adapters import through_adapters

_STEADY_ITERATIONS = 2
_STEADY = "steady iterations multiplied: {played} of {num} were played, and the last two were the same to 1e-9"
_FIRST = "the first iteration counts: the next one would be the same, with nothing on its way between them"
_ALONE = "steady iterations multiplied: 1 of {num} was played, with nothing on its way before it or after it"


def play(setup: Setup, replicate: int, exact: bool, tell: OnProgress) -> Outcome:
    """Play the job of one replicate; a deterministic one only until its iterations repeat."""
    num_iterations = setup.point.num_iterations
    steady = setup.point.strategy.is_periodic and are_steady(setup.point.stragglers) and setup.point.input is None
    if exact or not steady:
        return _play_all(setup, replicate, num_iterations, exact, tell)
    one = _one_for_all(setup, replicate, tell)
    if one is not None:
        return one
    if num_iterations <= _STEADY_ITERATIONS:
        return _play_all(setup, replicate, num_iterations, exact, tell)
    outcome = _play_all(setup, replicate, _STEADY_ITERATIONS, exact, tell)
    cycles_s = outcome.times.end_s - outcome.times.begin_s
    cycle_s = float(cycles_s[0, -1])
    if not np.allclose(cycles_s[:, -2:], cycle_s, rtol=1e-12, atol=0.0):
        return _play_all(setup, replicate, num_iterations, exact, tell)
    return outcome.repeated(num_iterations, cycle_s, _STEADY.format(played=_STEADY_ITERATIONS, num=num_iterations))


def _one_for_all(setup: Setup, replicate: int, tell: OnProgress) -> Outcome | None:
    """Return the outcome of one iteration that stands for all of a steady job; None where the others may differ.

    It is the first where the next one would be the same, and else the second.
    """
    num, laid_out = setup.point.num_iterations, setup.laid_out
    if not is_ever_alone(laid_out) or (laid_out is not None and laid_out.num_settling):
        return None
    played = _played(setup, replicate, 1, False, 0.0, tell, may_end_early=True)
    outcome = _outcome(played, laid_out)
    if not played.jobs[0].num_warm_up:
        outcome = replace(outcome, shortcuts=(*outcome.shortcuts, _FIRST))
        tell(1.0)
    if num == 1:
        return outcome
    alone_s = period_s(played.jobs, laid_out)
    return None if alone_s is None else outcome.repeated(num, alone_s, _ALONE.format(num=num))


def _play_all(setup: Setup, replicate: int, num_iterations: int, exact: bool, tell: OnProgress) -> Outcome:
    zero_s = 0.0
    if has_given_times(setup.point.stragglers):
        zero_s = _measured_from_s(_played(setup, replicate, 1, exact, float("inf"), lambda share: None))
    return _outcome(_played(setup, replicate, num_iterations, exact, zero_s, tell), setup.laid_out)


class _Played(NamedTuple):
    """A job that has been played: as several, and by a executor, where a copy of the model lies on several GPUs."""

    gpus: np.ndarray
    jobs: list[Job]
    executor: LayoutExecutor | None


def _played(
    setup: Setup,
    replicate: int,
    num_iterations: int,
    exact: bool,
    zero_s: float,
    tell: OnProgress,
    may_end_early: bool = False,
) -> _Played:
    """Return a job that has been played; the scenario's times count from `zero_s` on.

    Ranks that do the same are played as one where gradients meet among them alone, nothing is random, and they turn
    out to have kept together. With `may_end_early`, only the first iteration is played where the next one is the same.
    """
    network = network_over(Environment(), setup.topology, setup.transport, exact, setup.numba_from_messages)
    strategy, job = setup.point.strategy, job_on(network, setup, replicate, num_iterations, zero_s)
    disturb_links(network, delayed(setup.point.stragglers, zero_s), job.seed, job.gpus)
    if setup.laid_out is None:
        over = strategy.start(job, tell)
        if not (may_end_early and _first_is_enough([job], setup)):
            network.env.run(over)
        return _Played(job.gpus, [job], None)

    def again() -> Network:
        return network_over(Environment(), setup.topology, setup.transport, exact, setup.numba_from_messages)

    do_the_same = not exact and not setup.point.stragglers and setup.point.input is None
    if do_the_same and isinstance(strategy, CollectiveStrategy):
        for folds in (True, False):
            played = _played_by_executor(setup, job, again, tell, folds, may_end_early)
            if _has_kept_together(played, setup.laid_out):
                return played
            job = job_on(again(), setup, replicate, num_iterations, zero_s)
            if not played.jobs[0].plays_as_one:
                break
    return _played_by_executor(setup, job, None, tell, may_end_early=may_end_early)


def _has_kept_together(played: _Played, laid_out: LaidOut) -> bool:
    """Say whether ranks that were taken to do the same at the same time did so, as far as is known."""
    if played.executor is None or not played.executor.has_kept_together:
        return played.executor is None
    return not played.jobs[0].plays_as_one or kept_together(played.jobs, laid_out)


def _played_by_executor(
    setup: Setup,
    job: Job,
    again: Callable[[], Network] | None,
    tell: OnProgress,
    folds: bool = True,
    may_end_early: bool = False,
) -> _Played:
    """Return a laid out job that has been played: with shortcuts where `again` is given, as `jobs_of` says."""
    strategy = setup.point.strategy
    jobs, executor = executor_of(setup, job, again, folds)
    over = strategy.start_places(jobs, tell)
    if jobs[0].num_after:
        executor.recorder.last_noted = jobs[0].num_warm_up + jobs[0].num_iterations - 1
    if may_end_early and _first_is_enough(jobs, setup, executor):
        return _Played(job.gpus, jobs, executor)
    job.env.run(over)
    if jobs[0].window is None:
        job.env.run(job.env.all_of(executor.under_way()))
    for each in jobs:
        each.times = _whole(each, each.times, executor)
    return _Played(job.gpus, jobs, executor)


def _first_is_enough(jobs: list[Job], setup: Setup, executor: LayoutExecutor | None = None) -> bool:
    """Run jobs until their first iteration is over; keep that alone, and say so, if the next one would be the same.

    Nothing that they do later than that has been begun by then, as far as it goes over links.
    """
    if any(job.num_warm_up != 1 or job.num_after or job.window is not None for job in jobs):
        return False
    firsts_over = [job.env.event() for job in jobs]
    for job, first_over in zip(jobs, firsts_over, strict=True):
        job.first_over = first_over
    for first_over in firsts_over:
        first_over.env.run(first_over)
    firsts = [_whole(job, job.times.select(slice(0, 1)), executor) for job in jobs]
    seconds = second_like_the_first(jobs, firsts, setup.laid_out)
    if seconds is None:
        return False
    cycle_s = max(float(first.end_s.max()) for first in firsts)
    for job, job.times in zip(jobs, seconds, strict=True):
        job.num_warm_up = 0
        if executor is not None and job.ranks is not None:
            for rank, begin_s in zip(job.ranks.tolist(), job.times.begin_s[:, 0].tolist(), strict=True):
                executor.recorder.come_again(rank, cycle_s, begin_s)
    return True


def _whole(job: Job, times: Timesheet, executor: LayoutExecutor | None) -> Timesheet:
    """Return the times of all ranks of a job with what was left out, of those that its executor has played."""
    if executor is not None and (left_out := executor.course.left_out):
        times = times.put_off([gap.at_s for gap in left_out], [gap.seconds for gap in left_out])
    if job.plays_as_one:
        note_for_all(times)
    return times


def executor_of(
    setup: Setup, job: Job, again: Callable[[], Network] | None, folds: bool = True
) -> tuple[list[Job], LayoutExecutor]:
    """Return a job for each place of a copy of a laid out model, and their executor; as `jobs_of`."""
    assert setup.laid_out is not None
    is_grid = setup.point.parallelism.kind == "grid"  # others exchange more than gradients among copies
    algorithm = getattr(setup.point.strategy, "algorithm", "auto") if is_grid else "auto"
    return jobs_of(job, setup.laid_out, algorithm, again, folds, setup.detail)


def _outcome(played: _Played, laid_out: LaidOut | None) -> Outcome:
    if laid_out is None or played.executor is None:
        return outcome_of(played.jobs[0])
    return joined(played.jobs, laid_out, played.executor, played.gpus)


def _measured_from_s(played: _Played) -> float:
    """Return when what is measured of a job begins: the same whatever happens afterwards."""
    job = played.jobs[0]
    if job.window is not None:
        return job.window.start_s
    return min(float(each.times.begin_s[:, each.num_warm_up].min()) for each in played.jobs)


def job_on(network: Network, setup: Setup, replicate: int, num_iterations: int, zero_s: float) -> Job:
    """Return the job of a replicate on its GPUs of a network's cluster, ready to start.

    The times that its stragglers are given count from `zero_s` on.
    """
    point, seed, gpus = setup.point, setup.seed(replicate), setup.gpus(replicate)
    hosts = setup.topology.gpu_hosts[gpus]
    stragglers = delayed(point.stragglers, zero_s)
    draws = Draws(stragglers, seed, hosts)
    return Job(
        env=network.env,
        network=network,
        transport=setup.transport,
        gpus=gpus,
        plans=_plans(setup, gpus, draws),
        slowdown=draws.factor,
        update_bytes_per_byte=point.optimizer.moved_bytes_per_parameter / setup.wire_bytes_per_parameter,
        bytes_per_number=setup.wire_bytes_per_parameter,
        num_iterations=num_iterations,
        seed=seed,
        paces=paces(stragglers, seed, hosts),
        slowest=np.array([setup.slowest_of(kind) for kind in setup.kinds(gpus)]),
        wire=setup.wire,
        input_stage=_input_stage(network, setup, hosts, seed),
    )


def _input_stage(network: Network, setup: Setup, hosts: np.ndarray, seed: int) -> InputStage | None:
    """Return the loaders of a job's ranks [num_ranks], which are on `hosts`; None where samples are there.

    Where a copy of the model lies on several GPUs, one of them has a loader: the first of those that split the layers
    of the first stage. It reads what goes through the stages at once.
    """
    point, laid_out = setup.point, setup.laid_out
    if point.input is None:
        return None
    if laid_out is None:
        return InputStage(network.env, point.input, hosts, point.per_gpu_batch, seed)
    samples = point.micro_batch / point.parallelism.time_chunks
    return InputStage(network.env, point.input, hosts[laid_out.replicas()[0]], samples, seed)


def network_over(
    env: simpy.Environment,
    topology: Topology,
    transport: Transport,
    exact: bool,
    numba_from_messages: int | None = None,
) -> Network:
    """Return the network of a cluster as a message library uses it; `exact` turns its shortcuts off.

    From `numba_from_messages` on its messages are simulated by compiled kernels (see `Network`).
    """
    if transport.receiving_bytes_per_s is not None and topology.processes is None:
        raise InputError(
            f"processes whose threads carry so much ({transport.name}) are simulated in training with servers only",
            got=transport.name,
            allowed=transport.library,
            key="transport",
        )
    return Network(
        env,
        through_adapters(topology) if transport.in_host == "adapter" else as_seen(topology, transport.library),
        topology.sharing,
        overhead_s=transport.overhead_s,
        efficiency=transport.efficiency,
        adds=transport.adds,
        host_overhead_s=transport.host_overhead_s,
        add_s_per_byte=transport.add_s_per_byte,
        exact=exact,
        connection_bytes_per_s=transport.connection_bytes_per_s,
        numba_from_messages=numba_from_messages,
    )


def _plans(setup: Setup, gpus: np.ndarray, draws: Draws) -> Callable[[int, int], Iteration]:
    """Return what gives the plan of a rank and an iteration."""
    kinds = setup.kinds(gpus)
    if setup.laid_out is not None:
        first = setup.laid_out.plans[0].iteration
        return lambda rank, iteration: first
    shared = {kind: setup.plan_of(kind) for kind in dict.fromkeys(kinds)}
    if not draws.has_layers:
        return lambda rank, iteration: shared[kinds[rank]]

    def plan(rank: int, iteration: int) -> Iteration:
        work = setup.workload(kinds[rank])
        return setup.plan(work, draws.layers(rank, iteration, len(work.layers)))

    return plan
