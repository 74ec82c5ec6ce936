"""Backup workers: an update takes the first gradients that come, and the last few are dropped."""

from __future__ import annotations

from math import ceil
from typing import Literal

from pydantic import Field

from clustersim.errors import Mistake
from clustersim.strategies.rule import Part, Rule, Shard
from clustersim.strategies.served import Served


class Backup(Served):
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

    def rule(self, num_workers: int) -> Rule:
        return FirstOnes(num_workers - self._num_backups(num_workers))

    def _num_backups(self, num_workers: int) -> int:
        if self.fraction is not None:
            return num_workers - ceil(self.fraction * num_workers - 1e-9)
        return 1 if self.backups is None else self.backups


class FirstOnes(Rule):
    """An update takes the first gradients of its version, and none of an older one; workers wait for it."""

    def updates_per_round(self, num_workers: int) -> int:
        return 1

    def takes(self, shard: Shard, part: Part) -> bool:
        return part.version_read == shard.version

    def to_read(self, part: Part) -> int:
        return part.version_read + 1
