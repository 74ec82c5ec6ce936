"""The state of one iteration of one rank of a layout, while it is simulated."""

from __future__ import annotations

import numpy as np
import simpy

from clustersim.execution.job import Job
from clustersim.execution.layout_collectives import PendingCollective, TimedCollective
from clustersim.program.ops import Key, Send
from clustersim.results import DURATION_COLUMNS
from clustersim.shortcuts.micro_batch_cycle import MicroBatchCycles, RankCycles


class RankIteration:
    """One iteration of the rank `rank` of all ranks, of a pipeline `stage`, which has the index `place` in its `job`.

    `collectives` are those that it has called, each with the event of its end. `host_ops` are the ends of the copies
    and updates that it has begun on its host. `unsent` is a message that waits for its receiver. `cycles` are the
    micro-batch cycles of the iteration, and `rank_cycles` records this rank's cycle while it is in one. The host has
    issued all before the next operation at `host_until_s` seconds. With `issues_buckets` it issues the exchange of each
    bucket that is ready.
    """

    __slots__ = (
        "collectives",
        "cycles",
        "host_ops",
        "host_until_s",
        "issues_buckets",
        "iteration",
        "job",
        "place",
        "rank",
        "rank_cycles",
        "slowdown",
        "stage",
        "unsent",
    )

    def __init__(self, job: Job, place: int, rank: int, iteration: int, stage: int, issues_buckets: bool):
        self.job, self.place, self.rank, self.iteration, self.stage = job, place, rank, iteration, stage
        self.issues_buckets = issues_buckets
        self.slowdown = job.slowdown(place, iteration)
        self.collectives: dict[Key, tuple[PendingCollective | TimedCollective, simpy.Event]] = {}
        self.host_ops: dict[Key, simpy.Event] = {}
        self.unsent: Send | None = None
        self.host_until_s = float(job.env.now)
        self.cycles: MicroBatchCycles | None = None
        self.rank_cycles: RankCycles | None = None

    def watch(self, event: simpy.Event) -> None:
        """Record the end of an operation that runs in the background, for the detection of identical cycles."""
        if self.rank_cycles is not None:
            self.rank_cycles.watch(event)
        elif self.cycles is not None:
            self.cycles.watch_early(event)

    def done_event(self, key: Key | None) -> simpy.Event | None:
        """Return the event of the end of an operation that this rank has begun; None without a key."""
        if key is None:
            return None
        return self.collectives[key][1] if key in self.collectives else self.host_ops[key]

    def durations_s(self) -> np.ndarray:
        """Return the seconds so far in each column of the timesheet that holds a duration [len(DURATION_COLUMNS)]."""
        self.job.times.slowed_s[self.place, self.iteration] += self.job.devices[self.place].take_lost_s()
        return np.array([getattr(self.job.times, name)[self.place, self.iteration] for name in DURATION_COLUMNS])

    def add_durations(self, more_s: np.ndarray) -> None:
        """Add seconds to these columns; `more_s` [len(DURATION_COLUMNS) or more], further values are ignored."""
        for name, seconds in zip(DURATION_COLUMNS, more_s.tolist(), strict=False):
            getattr(self.job.times, name)[self.place, self.iteration] += seconds
