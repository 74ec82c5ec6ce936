"""Several jobs on one cluster: all of them on one clock and one network, and each alone to compare with.

Nobody ends before the others: every job trains on until the last one has done the iterations that count, so that
what counts of each is done beside all others. It begins to count when all jobs have found their pace.
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
from clustersim.simulate.layout_jobs import joined
from clustersim.simulate.outcome import Outcome, outcome_of
from clustersim.simulate.play import executor_of, job_on, network_over
from clustersim.simulate.setup import Setup
from clustersim.simulate.trouble import disturb_links
from clustersim.simulate.workloads import Workloads
from clustersim.stragglers import delayed, has_given_times

_TOLD = (
    "{num} jobs share the cluster. What counts begins when all have found their pace, and until the last has done its "
    "iterations all train on. Each was also played alone on its GPUs with the same luck, for its slowdown."
)


def setups_of(
    point: Point, workloads: Workloads | None = None, detail: bool = True, numba_from_messages: int | None = None
) -> list[Setup]:
    """Return what each job of a point needs; each takes GPUs that those before it leave."""
    shared, setups = Workloads() if workloads is None else workloads, list[Setup]()
    for job in point.each_job():
        setups.append(Setup(job.point, shared, setups, detail, numba_from_messages))
    return setups


def told_of_jobs(point: Point) -> tuple[str, ...]:
    """Say how several jobs were measured, where there are several."""
    num = len(point.each_job())
    return (_TOLD.format(num=num),) if num > 1 else ()


def play_together(
    jobs: Sequence[JobOfMany], setups: Sequence[Setup], replicate: int, exact: bool, tell: OnProgress
) -> Outcome:
    """Play one replicate of all jobs; return what the first gave, with the figures of all.

    Its `link_bytes` are those of all jobs in the time of one of its iterations.
    """
    zero_s = _measured_from_s(jobs, setups, replicate, exact)
    stage = _Stage(setups[0], replicate, exact, zero_s)
    parts = [stage.enter(job, setup) for job, setup in zip(jobs, setups, strict=True)]
    begin_s, before = stage.reach([part.pace_s for part in parts])
    for part in parts:
        part.open(begin_s)
    tell(0.1)
    end_s, after = stage.reach([part.counted_s for part in parts])
    for part in parts:
        part.close(end_s)
    stage.until(lambda: all(part.has_ended() for part in parts))
    tell(0.5)
    outcomes, figures = [part.outcome() for part in parts], []
    for number, (part, outcome) in enumerate(zip(parts, outcomes, strict=True)):
        alone_s = _alone_s(part, outcome, stage.alone())
        figures.append(_figures(part, outcome, alone_s))
        tell(0.5 + 0.5 * (number + 1) / len(parts))
    link_bytes = (after - before) * (outcomes[0].iteration_s / (end_s - begin_s))
    return replace(outcomes[0], link_bytes=link_bytes, jobs=tuple(figures))


def _measured_from_s(jobs: Sequence[JobOfMany], setups: Sequence[Setup], replicate: int, exact: bool) -> float:
    """Return when what is measured of the first job begins, where times are given that count from then on; else 0.

    It is the same whatever happens from then on.
    """
    if not any(has_given_times(setup.point.stragglers) for setup in setups):
        return 0.0
    stage = _Stage(setups[0], replicate, exact, float("inf"))
    parts = [stage.enter(job, setup) for job, setup in zip(jobs, setups, strict=True)]
    begin_s, _ = stage.reach([part.pace_s for part in parts])
    parts[0].open(begin_s)
    stage.until(lambda: parts[0].begin_s() < float("inf"))
    return parts[0].begin_s()


def _alone_s(part: _Part, outcome: Outcome, stage: _Stage) -> float:
    """Return the mean time of a job's cycles that count when it is alone on the cluster.

    It is as much shorter than beside the others as those are that are done: each counts as much as it does there.
    """
    alone = stage.enter(part.one, part.setup, part.jobs[0].server_hosts)
    shape = outcome.done.shape[0], part.first + outcome.done.shape[1]
    counts, beside_s = np.zeros(shape), np.zeros(shape)
    counts[:, part.first :] = outcome.done
    beside_s[:, part.first :] = outcome.times.end_s - outcome.times.begin_s
    ranks, iterations = np.nonzero(counts)
    stage.until(lambda: all(_are_done(job, counts) for job in alone.jobs))
    alone_s = np.full(shape, np.nan)
    for job in alone.jobs:
        cycles_s = (job.times.end_s - job.times.begin_s)[:, : shape[1]]
        alone_s[_ranks(job), : cycles_s.shape[1]] = cycles_s
    alone_s = alone_s[ranks, iterations]
    weights = counts[ranks, iterations]
    slowdown = float((weights * beside_s[ranks, iterations]).sum() / (weights * alone_s).sum())
    return outcome.iteration_s / slowdown


def _are_done(job: Job, counts: np.ndarray) -> bool:
    """Say whether the ranks of a job have ended all iterations of theirs that count [all ranks, num_iterations]."""
    end_s, (ranks, iterations) = job.times.end_s, np.nonzero(counts[_ranks(job)])
    if end_s.shape[1] <= iterations.max(initial=-1):
        return False
    return not np.isnan(end_s[ranks, iterations]).any()


def _ranks(job: Job) -> np.ndarray:
    """Return who the ranks of a job are among all [num_ranks]."""
    return np.arange(job.num_ranks) if job.ranks is None else job.ranks


def _figures(part: _Part, outcome: Outcome, alone_s: float) -> JobRun:
    point = part.setup.point
    return JobRun(
        name=part.one.name,
        model=point.model,
        num_gpus=point.num_gpus,
        start_s=part.one.start_s,
        iteration_s=outcome.iteration_s,
        samples_per_s=point.global_batch * outcome.applied_share / outcome.iteration_s,
        alone_iteration_s=alone_s,
        slowdown=outcome.iteration_s / alone_s,
    )


class _Stage:
    """A clock and a network for some of the jobs; trouble on links is that of the first of all.

    The times that stragglers are given count from `zero_s` on.
    """

    def __init__(self, first: Setup, replicate: int, exact: bool, zero_s: float):
        self._first, self._replicate, self._exact, self._zero_s = first, replicate, exact, zero_s
        limit = first.numba_from_messages
        self._network: Network = network_over(Environment(), first.topology, first.transport, exact, limit)
        self._hosts_in_use: set[int] = set()
        self._host_rates: dict[int, SharedRate] = {}
        trouble = delayed(first.point.stragglers, zero_s)
        disturb_links(self._network, trouble, first.seed(replicate), first.gpus(replicate))

    def alone(self) -> _Stage:
        """Return such a stage with nobody on it."""
        return _Stage(self._first, self._replicate, self._exact, self._zero_s)

    def enter(self, one: JobOfMany, setup: Setup, server_hosts: Sequence[int] = ()) -> _Part:
        """Put a job on the clock, which starts when its time has come; its servers may have their hosts already."""
        job = job_on(self._network, setup, self._replicate, ENDLESS, self._zero_s)
        self._hosts_in_use |= job.hosts_in_use
        job.hosts_in_use, job.server_hosts = self._hosts_in_use, list(server_hosts)
        job.host_rates = self._host_rates
        jobs, executor = ([job], None) if setup.laid_out is None else executor_of(setup, job, None)
        self._network.env.process(_started(setup, jobs, one.start_s))
        return _Part(one, setup, job.gpus, jobs, executor)

    def until(self, is_over: Callable[[], bool]) -> None:
        """Let the jobs go on until something is so."""
        while not is_over():
            self._network.env.step()

    def reach(self, times: Sequence[Callable[[], float | None]]) -> tuple[float, np.ndarray]:
        """Go to the latest of some times; return it, and the bytes that links [num_links] have carried by then.

        Each is asked for until it is known. That may be before it comes, where workers note down what is sure; then it
        gets an event on the clock, so that the network is not played beyond it. At the end, all that is due at that
        time has happened.
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


def _started(setup: Setup, jobs: Sequence[Job], start_s: float) -> Process:
    if start_s > 0:
        yield jobs[0].env.timeout(start_s)
    yield setup.point.strategy.start_places(jobs) if len(jobs) > 1 else setup.point.strategy.start(jobs[0])


@dataclass
class _Part:
    """A job on the stage. Of one that is_vectorized in step the iterations `first` to `last` count, in whole rounds.

    Where a copy of its model lies on several GPUs, it is played as `jobs`, one for each place of a copy, by an
    `executor`.
    """

    one: JobOfMany
    setup: Setup
    gpus: np.ndarray  # [num_ranks]
    jobs: list[Job]
    executor: LayoutExecutor | None
    first: int = field(default=0, init=False)
    last: int = field(default=0, init=False)
    updates_before: int = field(default=0, init=False)  # those that count, of a job that does not

    @property
    def window(self) -> Window | None:
        """What of the run counts, where workers do not march in step."""
        return self.jobs[0].window

    @property
    def num_iterations(self) -> int:
        """How many iterations have to count at least, or updates of workers that do not march in step."""
        return self._whole_rounds(self.setup.point.num_iterations)

    def pace_s(self) -> float | None:
        """Return when all workers have ended the iterations before those that may count, once that is known.

        Of workers out of step: when as many updates have been made as come before.
        """
        window = self.window
        if window is None:
            return self._ended_s(max(1, self.jobs[0].num_warm_up))
        return window.start_s if window.start_s < float("inf") else None

    def open(self, now_s: float) -> None:
        """Let what begins from now on count."""
        window = self.window
        if window is None:
            begun = max(int((job.times.begin_s < now_s).any(axis=0).sum()) for job in self.jobs)
            self.first = self._whole_rounds(begun)
        else:
            window.open()
            window.counts_gradients, self.updates_before = False, window.num_updates

    def begin_s(self) -> float:
        """Return when the first worker begins what counts; infinity as long as that is not known of all."""
        if self.window is not None:
            return self.window.start_s
        first_s = float("inf")
        for job in self.jobs:
            begin_s = job.times.begin_s
            if begin_s.shape[1] <= self.first or np.isnan(begin_s[:, self.first]).any():
                return float("inf")
            first_s = min(first_s, float(begin_s[:, self.first].min()))
        return first_s

    def counted_s(self) -> float | None:
        """Return when as much as has to count has ended, or now where it has, once that is known."""
        window = self.window
        if window is None:
            return self._ended_s(self.first + self.num_iterations)
        has_counted = window.num_updates - self.updates_before >= self.num_iterations
        return float(self.jobs[0].env.now) if has_counted else None

    def close(self, now_s: float) -> None:
        """Let what begins from now on count no more; a round that all workers have begun counts as a whole."""
        if self.window is None:
            begun = min(int((job.times.begin_s < now_s).all(axis=0).sum()) for job in self.jobs)
            more = max(0, begun - self.first - self.num_iterations)
            self.last = self.first + self.num_iterations + self._whole_rounds(more)
            if self.executor is not None:
                self.executor.recorder.last_noted = self.last - 1
        else:
            self.window.close()

    def has_ended(self) -> bool:
        """Say whether all that counts has ended."""
        if self.window is None:
            return self._ended_s(self.last) is not None
        return self.window.finished.triggered

    def outcome(self) -> Outcome:
        """Return what counts of the job."""
        for job in self.jobs if self.window is None else ():
            job.num_warm_up, job.num_after, job.times = self.first, 0, job.times.select(slice(0, self.last))
        if self.executor is None or self.setup.laid_out is None:
            return outcome_of(self.jobs[0])
        return joined(self.jobs, self.setup.laid_out, self.executor, self.gpus)

    def _ended_s(self, num_iterations: int) -> float | None:
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
