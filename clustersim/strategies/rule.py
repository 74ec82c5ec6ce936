"""When a server updates its share of the model, and when a worker may read it."""

from __future__ import annotations

from dataclasses import dataclass, field

import simpy


@dataclass(eq=False)
class Gradient:
    """The gradient of one worker's iteration on its way to the servers, in parts: one for each bucket and server."""

    rank: int
    iteration: int
    parts_left: int
    staleness: int = 0  # of its oldest part
    version_written: int = 0
    num_bytes: float = 0.0  # of the parts that have been applied or dropped
    applied_bytes: float = 0.0
    applied_parts: int = 0


@dataclass(eq=False)
class Part:
    """What a gradient brings to one shard: when it set off, and the version its worker had read."""

    gradient: Gradient
    enter_s: float
    version_read: int


@dataclass(eq=False)
class Shard:
    """A server's share of a bucket.

    `version` counts its updates, `read` [num_ranks] is the version each worker has, `num_applied` [num_ranks] how many
    gradients of each worker it has taken. `pending` wait for their update; `readers` for a version.
    `last_part` is the one that set off last of those in the latest update.
    """

    server: int
    bucket: int
    num_bytes: float
    read: list[int]
    num_applied: list[int]
    version: int = 0
    pending: list[Part] = field(default_factory=list)
    readers: list[tuple[int, simpy.Event]] = field(default_factory=list)
    last_part: Part | None = None


class Rule:
    """An update takes `gradients_per_update` gradients, whoever's they are; workers read whatever is there."""

    def __init__(self, gradients_per_update: int = 1):
        self.gradients_per_update = gradients_per_update

    def updates_per_round(self, num_workers: int) -> int:
        """Return how many updates there are while every worker hands in one gradient."""
        return max(1, num_workers // self.gradients_per_update)

    def takes(self, shard: Shard, part: Part) -> bool:
        """Say whether a part that has arrived will be applied, or is too late."""
        return True

    def version_after(self, shard: Shard) -> int:
        """Return the version of a shard whose pending parts have just been applied."""
        return shard.version + 1

    def written_by(self, shard: Shard, part: Part) -> int:
        """Return the version that a part has written, once it is applied and the shard has its new version."""
        return shard.version

    def to_read(self, part: Part) -> int:
        """Return the version that the worker of a part waits for before it reads the shard again."""
        return 0
