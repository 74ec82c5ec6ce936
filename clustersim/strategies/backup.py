"""Backup workers: an update takes the first gradients that arrive, and the last few are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import ClassVar, Literal

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

    An update takes the first gradients of its version, from all workers but `backups` (or from a `fraction` of the
    workers). A later gradient is dropped, and its worker continues with the current version. Without backup workers
    this is the synchronous server.
    """

    supports_layouts: ClassVar[bool] = True
    kind: Literal["backup"] = "backup"
    backups: int | None = Field(
        default=None, ge=0, description="workers whose gradient an update does not wait for; 1 if not given"
    )
    fraction: float | None = Field(
        default=None, gt=0, le=1, description="share of the workers that an update waits for; replaces `backups`"
    )

    def mistakes(self, num_workers: int) -> list[Mistake]:
        """Return a mistake if backups are given in two ways, or are all of the workers."""
        mistakes = []
        if self.backups is not None and self.fraction is not None:
            message = "backups and fraction both say how many gradients an update takes; keep one"
            mistakes.append(Mistake(message, key="fraction", got=f"{self.fraction:g}", allowed="backups or fraction"))
        elif self._num_backups(num_workers) >= num_workers:
            given = self._num_backups(num_workers)
            message = (
                f"with {given} of {num_workers} workers as backups, no gradient is left for an update; "
                "num_gpus counts the backups too"
            )
            allowed = f"0 to {num_workers - 1}"
            mistakes.append(Mistake(message, key="backups", got=str(given), allowed=allowed))
        return mistakes

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(num_workers - self._num_backups(num_workers), num_workers)

    def update_rule(self, num_workers: int) -> UpdateRule:
        return FirstGradients(num_workers - self._num_backups(num_workers))

    def start(self, job: Job, on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start all workers at their own pace; without backup workers, start the synchronous server."""
        if self._num_backups(job.num_ranks):
            return super().start(job, on_progress)
        return self._synchronous().start(job, on_progress)

    def start_layout(self, jobs: Sequence[Job], on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start the replicas of the model, each as one worker; without backups, start the synchronous server."""
        if self._num_backups(jobs[0].num_ranks):
            return super().start_layout(jobs, on_progress)
        return self._synchronous().start_layout(jobs, on_progress)

    def _synchronous(self) -> Server:
        return Server(servers=self.servers, overlap=self.overlap, buckets=self.buckets)

    def _num_backups(self, num_workers: int) -> int:
        if self.fraction is not None:
            return num_workers - ceil(self.fraction * num_workers - 1e-9)
        return 1 if self.backups is None else self.backups


class FirstGradients(UpdateRule):
    """An update takes the first gradients of its version and no older ones; workers wait for the update.

    The servers agree on which gradients are the first: those of which any part is served first at any server. So a
    gradient is applied or dropped as a whole, and all shards make the same updates.
    """

    def __init__(self, gradients_per_update: int):
        super().__init__(gradients_per_update)
        self._version = 0  # the version whose gradients are accepted now
        self._num_accepted = 0

    @property
    def waits_for_updates(self) -> bool:
        return True

    def version_read(self, model_version: int, shard_versions: Iterable[int]) -> int:
        """Return the version of the oldest shard: a late worker may have pulled some before an update, some after."""
        return min(shard_versions)

    def accepts(self, gradient: Gradient) -> bool:
        if gradient.is_accepted is None:
            gradient.is_accepted = gradient.version_read == self._version
            self._num_accepted += gradient.is_accepted
            if self._num_accepted == self.gradients_per_update:
                self._version, self._num_accepted = self._version + 1, 0
        return gradient.is_accepted

    def needed_progress(self, gradient: Gradient) -> int:
        return gradient.version_read + 1
