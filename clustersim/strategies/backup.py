"""Backup workers: an update takes the first gradients that come, and the last few are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Literal

import simpy
from pydantic import Field

from clustersim.errors import Mistake
from clustersim.execution.job import Job, OnProgress
from clustersim.stragglers import Awaited
from clustersim.strategies.server import Server
from clustersim.strategies.server_strategy import ServerStrategy
from clustersim.strategies.update_rule import Gradient, UpdateRule


class Backup(ServerStrategy):
    """Synchronous servers that do not wait for the slowest workers (Chen et al., 2016).

    An update takes the first gradients of its version, from all but `backups` of the workers (or from a `fraction`
    of them). A gradient that comes later is dropped, and its worker goes on with the version it finds. Without backup
    workers that is the synchronous server.
    """

    kind: Literal["backup"] = "backup"
    backups: int | None = Field(default=None, ge=0, description="workers that an update does without; 1 if not given")
    fraction: float | None = Field(
        default=None, gt=0, le=1, description="share of the workers that an update waits for, in place of `backups`"
    )

    def mistakes(self, num_workers: int) -> list[Mistake]:
        """Return that backups are given twice, or are all of the workers."""
        mistakes = []
        if self.backups is not None and self.fraction is not None:
            message = "backups and fraction both say how many gradients an update takes; keep one"
            mistakes.append(Mistake(message, key="fraction", got=f"{self.fraction:g}", allowed="backups or fraction"))
        elif self._num_backups(num_workers) >= num_workers:
            given = self._num_backups(num_workers)
            message = (
                f"{given} of {num_workers} workers as backups leave nobody whose gradient makes an update; "
                "num_gpus counts the backups too"
            )
            allowed = f"0 to {num_workers - 1}"
            mistakes.append(Mistake(message, key="backups", got=str(given), allowed=allowed))
        return mistakes

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(num_workers - self._num_backups(num_workers), num_workers)

    def rule(self, num_workers: int) -> UpdateRule:
        return FirstGradients(num_workers - self._num_backups(num_workers))

    def start(self, job: Job, tell: OnProgress = lambda share: None) -> simpy.Event:
        """Let every worker go round until what counts is done; without backups in step, as the synchronous server."""
        if self._num_backups(job.num_ranks):
            return super().start(job, tell)
        return Server(servers=self.servers, overlap=self.overlap, buckets=self.buckets).start(job, tell)

    def start_places(self, jobs: Sequence[Job], tell: OnProgress = lambda share: None) -> simpy.Event:
        """Let every copy of the model go round as one worker does; without backups in step."""
        if self._num_backups(jobs[0].num_ranks):
            return super().start_places(jobs, tell)
        return Server(servers=self.servers, overlap=self.overlap, buckets=self.buckets).start_places(jobs, tell)

    def _num_backups(self, num_workers: int) -> int:
        if self.fraction is not None:
            return num_workers - ceil(self.fraction * num_workers - 1e-9)
        return 1 if self.backups is None else self.backups


class FirstGradients(UpdateRule):
    """An update takes the first gradients of its version, and none of an older one; workers wait for it.

    The servers agree on whose gradients these are: the first ones of which any part has its turn at any server. So
    a gradient is applied as a whole or dropped as a whole, and all shards make the same updates.
    """

    def __init__(self, gradients_per_update: int):
        super().__init__(gradients_per_update)
        self._version = 0  # of which gradients are taken at present
        self._num_taken = 0

    @property
    def waits_for_updates(self) -> bool:
        return True

    def version_read(self, model: int, shards: Iterable[int]) -> int:
        """Return the version of the oldest shard: who was late may have read some before an update, some after."""
        return min(shards)

    def takes(self, gradient: Gradient) -> bool:
        if gradient.is_taken is None:
            gradient.is_taken = gradient.version_read == self._version
            self._num_taken += gradient.is_taken
            if self._num_taken == self.gradients_per_update:
                self._version, self._num_taken = self._version + 1, 0
        return gradient.is_taken

    def to_read(self, gradient: Gradient) -> int:
        return gradient.version_read + 1
