"""Several jobs on one cluster: all on one clock and one network, and each alone to compare with.

No job ends before the others. Every job trains until the last one has done the iterations that count, so all that
counts of a job is measured beside all others. Measuring begins when all jobs have ended their warm-up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clustersim.devices import SharedRate
from clustersim.execution import Job, Window
from clustersim.execution.job import ENDLESS, OnProgress
from clustersim.execution.layout_executor import LayoutExecutor
from clustersim.execution.worker import Process
from clustersim.network import Environment, Network
from clustersim.results import JobRun
from clustersim.scenario import JobOfMany, Point
from clustersim.simulate.build import build_job, build_network, disturb_links
from clustersim.simulate.layout_jobs import joint_outcome
from clustersim.simulate.outcome import Outcome, outcome_of
from clustersim.simulate.replicate import SimulatedJob, layout_jobs_of
from clustersim.simulate.setup import Setup, Workloads
from clustersim.stragglers import delayed, has_given_times

_EVENTS_PER_LOOK = 1000
"""Events between two looks at whether enough has been simulated."""


def setups_of(
    point: Point, workloads: Workloads | None = None, detail: bool = True, numba_from_messages: int | None = None
) -> list[Setup]:
    """Return the setup of each job of a point; each job takes GPUs that those before it leave free."""
    shared, setups = Workloads() if workloads is None else workloads, list[Setup]()
    for job in point.each_job():
        setups.append(Setup(job.point, shared, setups, detail, numba_from_messages))
    return setups


def jobs_assumption(point: Point) -> tuple[str, ...]:
    """Return how several jobs are measured, if there are several."""
    num = len(point.each_job())
    if num == 1:
        return ()
    return (
        f"{num} jobs share the cluster. Measuring begins when all have ended their warm-up, and all train until the "
        "last one has done its iterations. Each was also simulated alone on its GPUs with the same random numbers, for "
        "its slowdown.",
    )


def simulate_jobs(
    jobs: Sequence[JobOfMany], setups: Sequence[Setup], replicate: int, exact: bool, on_progress: OnProgress
) -> Outcome:
    """Simulate one replicate of all jobs; return the outcome of the first one, with the figures of all.

    Its `link_bytes` are those of all jobs in the time of one of its iterations.
    """
    origin_s = _measured_from_s(jobs, setups, replicate, exact)
    cluster = _SharedCluster(setups[0], replicate, exact, origin_s)
    running = [cluster.add(job, setup) for job, setup in zip(jobs, setups, strict=True)]
    begin_s, before = cluster.run_to([job.warm_up_end_s for job in running])
    for job in running:
        job.open(begin_s)
    on_progress(0.1)
    end_s, after = cluster.run_to([job.counted_s for job in running])
    for job in running:
        job.close(end_s)
    cluster.run_until(lambda: all(job.has_ended() for job in running))
    on_progress(0.5)
    outcomes, figures = [job.outcome() for job in running], []
    for number, (job, outcome) in enumerate(zip(running, outcomes, strict=True)):
        alone_s = _alone_s(job, outcome, cluster.empty_copy())
        figures.append(_figures(job, outcome, alone_s))
        on_progress(0.5 + 0.5 * (number + 1) / len(running))
    link_bytes = (after - before) * (outcomes[0].iteration_s / (end_s - begin_s))
    return replace(outcomes[0], link_bytes=link_bytes, jobs=tuple(figures))


def simulate_beside(
    jobs: Sequence[tuple[JobOfMany, Setup]], replicate: int, exact: bool, num_iterations: int, on_progress: OnProgress
) -> SimulatedJob:
    """Simulate all jobs until the first one has made so many iterations from its start on; return that one.

    Of workers at their own pace it has made so many updates. Times given for stragglers count from its start on.
    """
    cluster = _SharedCluster(jobs[0][1], replicate, exact, jobs[0][0].start_s)
    first, *_ = [cluster.add(job, setup.without_detail(replicate + 1)) for job, setup in jobs]

    def has_ended() -> bool:
        num_made = first.num_made()
        on_progress(min(1.0, num_made / num_iterations))
        return num_made >= num_iterations

    cluster.run_until(has_ended, _EVENTS_PER_LOOK)
    return SimulatedJob(first.gpus, first.jobs, first.executor)


def _measured_from_s(jobs: Sequence[JobOfMany], setups: Sequence[Setup], replicate: int, exact: bool) -> float:
    """Return when the measured part of the first job begins, if times of stragglers count from then on; else 0.

    It does not depend on what happens from then on.
    """
    if not any(has_given_times(setup.point.stragglers) for setup in setups):
        return 0.0
    cluster = _SharedCluster(setups[0], replicate, exact, float("inf"))
    running = [cluster.add(job, setup) for job, setup in zip(jobs, setups, strict=True)]
    begin_s, _ = cluster.run_to([job.warm_up_end_s for job in running])
    running[0].open(begin_s)
    cluster.run_until(lambda: running[0].begin_s() < float("inf"))
    return running[0].begin_s()


def _alone_s(running: _RunningJob, outcome: Outcome, cluster: _SharedCluster) -> float:
    """Return the mean time of a job's iterations that count when it is alone on the cluster.

    It is the mean time beside the other jobs, divided by the slowdown. Iterations have the same weights in both sums of
    the slowdown.
    """
    alone = cluster.add(running.job_of_many, running.setup, running.jobs[0].server_hosts)
    shape = outcome.done.shape[0], running.first + outcome.done.shape[1]
    counts, beside_s = np.zeros(shape), np.zeros(shape)
    counts[:, running.first :] = outcome.done
    beside_s[:, running.first :] = outcome.times.end_s - outcome.times.begin_s
    ranks, iterations = np.nonzero(counts)
    cluster.run_until(lambda: all(_are_done(job, counts) for job in alone.jobs))
    alone_s = np.full(shape, np.nan)
    for job in alone.jobs:
        own_s = (job.times.end_s - job.times.begin_s)[:, : shape[1]]
        alone_s[_ranks(job), : own_s.shape[1]] = own_s
    alone_s = alone_s[ranks, iterations]
    weights = counts[ranks, iterations]
    slowdown = float((weights * beside_s[ranks, iterations]).sum() / (weights * alone_s).sum())
    return outcome.iteration_s / slowdown


def _are_done(job: Job, counts: np.ndarray) -> bool:
    """Return whether the ranks of a job have ended all their iterations that count [all ranks, num_iterations]."""
    end_s, (ranks, iterations) = job.times.end_s, np.nonzero(counts[_ranks(job)])
    if end_s.shape[1] <= iterations.max(initial=-1):
        return False
    return not np.isnan(end_s[ranks, iterations]).any()


def _ranks(job: Job) -> np.ndarray:
    """Return the numbers of a job's ranks among all ranks [num_ranks]."""
    return np.arange(job.num_ranks) if job.ranks is None else job.ranks


def _figures(running: _RunningJob, outcome: Outcome, alone_s: float) -> JobRun:
    point = running.setup.point
    return JobRun(
        name=running.job_of_many.name,
        model=point.model,
        num_gpus=point.num_gpus,
        start_s=running.job_of_many.start_s,
        iteration_s=outcome.iteration_s,
        samples_per_s=point.global_batch * outcome.applied_share / outcome.iteration_s,
        alone_iteration_s=alone_s,
        slowdown=outcome.iteration_s / alone_s,
    )


class _SharedCluster:
    """One clock and one network for some of the jobs; link disturbances are those of the first job.

    Times given for stragglers in the scenario count from `straggler_origin_s` on.
    """

    def __init__(self, first: Setup, replicate: int, exact: bool, straggler_origin_s: float):
        self._first, self._replicate, self._exact = first, replicate, exact
        self._straggler_origin_s = straggler_origin_s
        limit = first.numba_from_messages
        self._network: Network = build_network(Environment(), first.topology, first.transport, exact, limit)
        self._hosts_in_use: set[int] = set()
        self._host_rates: dict[int, SharedRate] = {}
        stragglers = delayed(first.point.stragglers, straggler_origin_s)
        disturb_links(self._network, stragglers, first.seed(replicate), first.gpus(replicate))

    def empty_copy(self) -> _SharedCluster:
        """Return the same cluster without any jobs, at time 0."""
        return _SharedCluster(self._first, self._replicate, self._exact, self._straggler_origin_s)

    def add(self, job_of_many: JobOfMany, setup: Setup, server_hosts: Sequence[int] = ()) -> _RunningJob:
        """Add a job, which starts at its start time; `server_hosts` are given if its servers have hosts already."""
        job = build_job(self._network, setup, self._replicate, ENDLESS, self._straggler_origin_s)
        self._hosts_in_use |= job.hosts_in_use
        job.hosts_in_use, job.server_hosts = self._hosts_in_use, list(server_hosts)
        job.host_rates = self._host_rates
        jobs, executor = ([job], None) if setup.laid_out is None else layout_jobs_of(setup, job, None)
        self._network.env.process(_start_later(setup, jobs, job_of_many.start_s))
        return _RunningJob(job_of_many, setup, job.gpus, jobs, executor)

    def run_until(self, is_over: Callable[[], bool], num_events: int = 1) -> None:
        """Simulate until a condition holds, which is looked at after every `num_events` events."""
        while not is_over():
            for _ in range(num_events):
                self._network.env.step()

    def run_to(self, times: Sequence[Callable[[], float | None]]) -> tuple[float, np.ndarray]:
        """Simulate to the latest of some times; return it, and the bytes carried by each link until then [num_links].

        Each time is asked for until it is known. That may be before it comes, if workers record ends that lie in the
        future. Then it gets an event on the clock, so that the network is not simulated beyond it. At the end, all
        events at that time have happened.
        """
        env, known = self._network.env, [time() for time in times]
        for time_s in known:
            self._stop_at(time_s)
        while None in known:
            env.step()
            for number, time in enumerate(times):
                if known[number] is None:
                    known[number] = time()
                    self._stop_at(known[number])
        instant_s = max(float(env.now), *(time_s for time_s in known if time_s is not None))
        if instant_s > env.now:
            env.run(until=instant_s)
        carried = self._network.link_bytes.copy()
        while env.peek() <= instant_s:
            env.step()
        return instant_s, carried

    def _stop_at(self, time_s: float | None) -> None:
        env = self._network.env
        if time_s is not None and time_s > env.now:
            env.timeout(time_s - env.now)


def _start_later(setup: Setup, jobs: Sequence[Job], start_s: float) -> Process:
    if start_s > 0:
        yield jobs[0].env.timeout(start_s)
    yield setup.point.strategy.start_layout(jobs) if len(jobs) > 1 else setup.point.strategy.start(jobs[0])


@dataclass
class _RunningJob:
    """A job on a shared cluster.

    If workers are synchronous, the iterations from `first` to before `last` count, in whole rounds of the strategy.
    If a copy of the model spans several GPUs, there is one of `jobs` for each place in a copy, and an `executor`.
    """

    job_of_many: JobOfMany
    setup: Setup
    gpus: np.ndarray  # [num_ranks]
    jobs: list[Job]
    executor: LayoutExecutor | None
    first: int = field(default=0, init=False)
    last: int = field(default=0, init=False)
    updates_before: int = field(default=0, init=False)  # updates before those that count, of asynchronous workers

    @property
    def window(self) -> Window | None:
        """The time that counts, if workers are asynchronous; else None."""
        return self.jobs[0].window

    @property
    def num_iterations(self) -> int:
        """How many iterations must count at least; of asynchronous workers, how many updates."""
        return self._whole_rounds(self.setup.point.num_iterations)

    def warm_up_end_s(self) -> float | None:
        """Return when all workers have ended the warm-up iterations, once that is known.

        Of asynchronous workers: when the updates before the window have been made.
        """
        window = self.window
        if window is None:
            return self._ended_s(max(1, self.jobs[0].num_warm_up))
        return window.start_s if window.start_s < float("inf") else None

    def open(self, now_s: float) -> None:
        """Count what begins from now on."""
        window = self.window
        if window is None:
            begun = max(int((job.times.begin_s < now_s).any(axis=0).sum()) for job in self.jobs)
            self.first = self._whole_rounds(begun)
        else:
            window.open()
            window.counts_gradients, self.updates_before = False, window.num_updates

    def begin_s(self) -> float:
        """Return when the first worker begins an iteration that counts; infinity until that is known of all workers."""
        if self.window is not None:
            return self.window.start_s
        first_s = float("inf")
        for job in self.jobs:
            begin_s = job.times.begin_s
            if begin_s.shape[1] <= self.first or np.isnan(begin_s[:, self.first]).any():
                return float("inf")
            first_s = min(first_s, float(begin_s[:, self.first].min()))
        return first_s

    def num_made(self) -> int:
        """Return how many iterations all workers have ended, or how many updates they have made at their own pace."""
        if self.window is not None:
            return self.window.num_updates
        return min(int((~np.isnan(job.times.end_s)).all(axis=0).sum()) for job in self.jobs)

    def counted_s(self) -> float | None:
        """Return when enough iterations or updates have been counted, once that is known."""
        window = self.window
        if window is None:
            return self._ended_s(self.first + self.num_iterations)
        has_counted = window.num_updates - self.updates_before >= self.num_iterations
        return float(self.jobs[0].env.now) if has_counted else None

    def close(self, now_s: float) -> None:
        """Count nothing that begins from now on; a round that all workers have begun counts as a whole."""
        if self.window is None:
            begun = min(int((job.times.begin_s < now_s).all(axis=0).sum()) for job in self.jobs)
            more = max(0, begun - self.first - self.num_iterations)
            self.last = self.first + self.num_iterations + self._whole_rounds(more)
            if self.executor is not None:
                self.executor.recorder.last_iteration = self.last - 1
        else:
            self.window.close()

    def has_ended(self) -> bool:
        """Return whether everything that counts has ended."""
        if self.window is None:
            return self._ended_s(self.last) is not None
        return self.window.finished.triggered

    def outcome(self) -> Outcome:
        """Return the outcome of what counts of the job."""
        for job in self.jobs if self.window is None else ():
            job.num_warm_up, job.num_after, job.times = self.first, 0, job.times.select(slice(0, self.last))
        if self.executor is None or self.setup.laid_out is None:
            return outcome_of(self.jobs[0])
        return joint_outcome(self.jobs, self.setup.laid_out, self.executor, self.gpus)

    def _ended_s(self, num_iterations: int) -> float | None:
        """Return when all workers have ended so many iterations; None if that is not known yet."""
        last_s = 0.0
        for job in self.jobs:
            end_s = job.times.end_s
            if end_s.shape[1] < num_iterations or np.isnan(end_s[:, num_iterations - 1]).any():
                return None
            last_s = max(last_s, float(end_s[:, num_iterations - 1].max()))
        return last_s

    def _whole_rounds(self, num_iterations: int) -> int:
        each = self.setup.point.strategy.round_length
        return -(-num_iterations // each) * each
