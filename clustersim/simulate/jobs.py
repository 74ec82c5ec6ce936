"""Several jobs on one cluster: all of them on one clock and one network, and each alone to compare with.

Nobody ends before the others: every job trains on until the last one has done the iterations that count, so that
what counts of each is done beside all others. It begins to count when all jobs have found their pace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clustersim.network import Environment, Network
from clustersim.results import JobRun
from clustersim.scenario import JobOfMany, Point
from clustersim.simulate.outcome import Outcome, outcome_of
from clustersim.simulate.play import Tell, job_on, network_over
from clustersim.simulate.setup import Setup, Workloads
from clustersim.simulate.trouble import disturb_links
from clustersim.strategies import Job
from clustersim.strategies.day import Process
from clustersim.strategies.job import ENDLESS

_MOST_ROUNDS = 10  # of all workers, that have to count where they do not march in step
_TOLD = (
    "{num} jobs share the cluster. What counts begins when all have found their pace, and until the last has done its "
    "iterations all train on. Each was also played alone on its GPUs with the same luck, for its slowdown."
)


def setups_of(point: Point, workloads: Workloads | None = None) -> list[Setup]:
    """Return what each job of a point needs; each takes GPUs that those before it leave."""
    shared, setups = Workloads() if workloads is None else workloads, list[Setup]()
    for job in point.each_job():
        setups.append(Setup(job.point, shared, setups))
    return setups


def told_of_jobs(point: Point) -> tuple[str, ...]:
    """Say how several jobs were measured, where there are several."""
    num = len(point.each_job())
    return (_TOLD.format(num=num),) if num > 1 else ()


def play_together(
    jobs: Sequence[JobOfMany], setups: Sequence[Setup], replicate: int, exact: bool, tell: Tell
) -> Outcome:
    """Play one replicate of all jobs; return what the first gave, with the figures of all.

    Its `link_bytes` are those of all jobs in the time of one of its iterations.
    """
    stage = _Stage(setups[0], replicate, exact)
    parts = [stage.enter(job, setup) for job, setup in zip(jobs, setups, strict=True)]
    stage.until(lambda: all(part.has_pace() for part in parts))
    begin_s, before = stage.reach(max(part.pace_s for part in parts))
    for part in parts:
        part.open(begin_s)
    tell(0.1)
    stage.until(lambda: all(part.has_counted() for part in parts))
    end_s, after = stage.reach(max(part.counted_s for part in parts))
    for part in parts:
        part.close(end_s)
    stage.until(lambda: all(part.has_ended() for part in parts))
    tell(0.5)
    outcomes, figures = [part.outcome() for part in parts], []
    for number, (part, outcome) in enumerate(zip(parts, outcomes, strict=True)):
        alone_s = _alone_s(part, outcome, setups[0], replicate, exact)
        figures.append(_figures(part, outcome, alone_s))
        tell(0.5 + 0.5 * (number + 1) / len(parts))
    link_bytes = (after - before) * (outcomes[0].iteration_s / (end_s - begin_s))
    return replace(outcomes[0], link_bytes=link_bytes, jobs=tuple(figures))


def _alone_s(part: _Part, outcome: Outcome, first: Setup, replicate: int, exact: bool) -> float:
    """Return the mean time of a job's cycles that count when it is alone on the cluster."""
    stage = _Stage(first, replicate, exact)
    alone = stage.enter(part.one, part.setup, part.job.server_hosts)
    counts = np.zeros((part.job.num_ranks, part.first + outcome.weights.shape[1]))
    counts[:, part.first :] = outcome.weights
    ranks = np.arange(len(counts))
    last = counts.shape[1] - 1 - (counts[:, ::-1] > 0).argmax(axis=1)

    def is_done() -> bool:
        end_s = alone.job.times.end_s
        return end_s.shape[1] > last.max() and not np.isnan(end_s[ranks, last]).any()

    stage.until(is_done)
    times = alone.job.times.select(slice(0, counts.shape[1]))
    return float(np.average(np.where(counts > 0, times.end_s - times.begin_s, 0.0), weights=counts))


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
    """A clock and a network for some of the jobs; trouble on links is that of the first of all."""

    def __init__(self, first: Setup, replicate: int, exact: bool):
        self._replicate = replicate
        self._network: Network = network_over(Environment(), first.topology, first.transport, exact)
        self._hosts_in_use: set[int] = set()
        disturb_links(self._network, first.point.stragglers, first.seed(replicate), first.gpus(replicate))

    def enter(self, one: JobOfMany, setup: Setup, server_hosts: Sequence[int] = ()) -> _Part:
        """Put a job on the clock, which starts when its time has come; its servers may have their hosts already."""
        job = job_on(self._network, setup, self._replicate, ENDLESS)
        self._hosts_in_use |= job.hosts_in_use
        job.hosts_in_use, job.server_hosts = self._hosts_in_use, list(server_hosts)
        self._network.env.process(_started(setup, job, one.start_s))
        return _Part(one, setup, job)

    def until(self, is_over: Callable[[], bool]) -> None:
        """Let the jobs go on until something is so."""
        while not is_over():
            self._network.env.step()

    def reach(self, time_s: float) -> tuple[float, np.ndarray]:
        """Go to the end of an instant; return when it is, and the bytes that links [num_links] have carried by then.

        Some workers note down what is sure before it happens, so that the clock may not be there yet.
        """
        env = self._network.env
        instant_s = max(time_s, float(env.now))
        while env.peek() <= instant_s:
            env.step()
        return instant_s, self._network.link_bytes.copy()


def _started(setup: Setup, job: Job, start_s: float) -> Process:
    if start_s > 0:
        yield job.env.timeout(start_s)
    yield setup.point.strategy.start(job)


@dataclass
class _Part:
    """A job on the stage. Of one that marches in step the iterations `first` to `last` count, in whole rounds."""

    one: JobOfMany
    setup: Setup
    job: Job
    first: int = field(default=0, init=False)
    last: int = field(default=0, init=False)
    end_s: float = field(default=0.0, init=False)
    num_rows: int = field(default=0, init=False)  # of the update log that have to count, of one that does not

    @property
    def num_iterations(self) -> int:
        """How many iterations have to count at least, or updates of workers that do not march in step."""
        return self._whole_rounds(self.setup.point.num_iterations)

    def has_pace(self) -> bool:
        """Say whether all workers have ended the iterations before those that may count."""
        return self._all_ended(self._num_before)

    @property
    def pace_s(self) -> float:
        """When they have."""
        return float(self.job.times.end_s[:, self._num_before - 1].max())

    def open(self, now_s: float) -> None:
        """Let what begins from now on count."""
        job, num = self.job, self.setup.point.num_iterations
        if job.window is None:
            self.first = self._whole_rounds(int((job.times.begin_s < now_s).any(axis=0).sum()))
        else:
            job.window.start_s, job.window.first_row = now_s, len(job.updates)
            self.num_rows = max(num * job.gradients_per_update, min(num, _MOST_ROUNDS) * len(job.pushing))

    def has_counted(self) -> bool:
        """Say whether as much as has to count has ended."""
        if self.job.window is None:
            return self._all_ended(self.first + self.num_iterations)
        return len(self.job.updates) - self.job.window.first_row >= self.num_rows

    @property
    def counted_s(self) -> float:
        """When it had."""
        if self.job.window is None:
            return float(self.job.times.end_s[:, self.first + self.num_iterations - 1].max())
        return self.job.updates.time_s[self.job.window.first_row + self.num_rows - 1]

    def close(self, now_s: float) -> None:
        """Let what begins from now on count no more; a round that all workers have begun counts as a whole."""
        self.end_s = now_s
        if self.job.window is None:
            begun = int((self.job.times.begin_s < now_s).all(axis=0).sum())
            more = max(0, begun - self.first - self.num_iterations)
            self.last = self.first + self.num_iterations + self._whole_rounds(more)
        else:
            self.job.window.end_s, self.job.window.last_row = now_s, len(self.job.updates)

    def has_ended(self) -> bool:
        """Say whether all that counts has ended."""
        if self.job.window is None:
            return self._all_ended(self.last)
        times = self.job.times
        return not (np.isnan(times.end_s) & (times.begin_s < self.end_s)).any()

    def outcome(self) -> Outcome:
        """Return what counts of the job."""
        if self.job.window is None:
            self.job.num_warm_up, self.job.times = self.first, self.job.times.select(slice(0, self.last))
        return outcome_of(self.job)

    @property
    def _num_before(self) -> int:
        return max(1, self.job.num_warm_up)

    def _all_ended(self, num_iterations: int) -> bool:
        end_s = self.job.times.end_s
        return end_s.shape[1] >= num_iterations and not np.isnan(end_s[:, num_iterations - 1]).any()

    def _whole_rounds(self, num_iterations: int) -> int:
        each = self.setup.point.strategy.round_length
        return -(-num_iterations // each) * each
