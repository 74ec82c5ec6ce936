"""One rank's iteration while it is played."""

from __future__ import annotations

import numpy as np
import simpy

from clustersim.execution.job import Job
from clustersim.execution.layout_collectives import PendingCollective, TimedCollective
from clustersim.program.ops import Key, Send
from clustersim.results import DURATION_COLUMNS
from clustersim.shortcuts.micro_batch_cycle import MicroBatchCycles, RankCycles


class RankIteration:
    """An iteration of one rank while it is played: of which place of which job, and what it has begun.

    `called` are collectives, when their last rank asked and their ends; `aside` copies and updates on the host.
    `unsent` is what the other rank is to be there for, and `runner` looks on while the rank is in `cycles`.
    """

    __slots__ = ("aside", "called", "cycles", "iteration", "job", "place", "rank", "runner", "slowdown", "unsent")

    def __init__(self, job: Job, place: int, rank: int, iteration: int):
        self.job, self.place, self.rank, self.iteration = job, place, rank, iteration
        self.slowdown = job.slowdown(place, iteration)
        self.called: dict[Key, tuple[PendingCollective | TimedCollective, simpy.Event]] = {}
        self.aside: dict[Key, simpy.Event] = {}
        self.unsent: Send | None = None
        self.cycles: MicroBatchCycles | None = None
        self.runner: RankCycles | None = None

    def watch(self, event: simpy.Event) -> None:
        """Look at when something ends that the rank lets go on beside what it does."""
        if self.runner is not None:
            self.runner.watch(event)
        elif self.cycles is not None:
            self.cycles.watch_early(event)

    def end_of(self, key: Key | None) -> simpy.Event | None:
        """Return the end of what this rank has begun."""
        if key is None:
            return None
        return self.called[key][1] if key in self.called else self.aside[key]

    def lasted_s(self) -> np.ndarray:
        """Return the durations of a timesheet so far, in seconds [num of `DURATION_COLUMNS`]."""
        self.job.times.slowed_s[self.place, self.iteration] += self.job.devices[self.place].take_lost_s()
        return np.array([getattr(self.job.times, name)[self.place, self.iteration] for name in DURATION_COLUMNS])

    def last(self, more_s: np.ndarray) -> None:
        """Let each of these things have lasted longer."""
        for name, seconds in zip(DURATION_COLUMNS, more_s.tolist(), strict=False):
            getattr(self.job.times, name)[self.place, self.iteration] += seconds
