"""When a server updates its share of the model, and when a worker may read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import simpy


@dataclass(eq=False, slots=True)
class Gradient:
    """The gradient of one worker's iteration on its way to the servers, in parts: one for each bucket and server.

    `version_read` is the version of the whole model that it was computed on. `is_taken` says whether it will be
    applied or is too late, once that has been decided, for all parts together.
    """

    rank: int
    iteration: int
    parts_left: int
    version_read: int
    is_taken: bool | None = None


@dataclass(eq=False, slots=True)
class Part:
    """What a gradient brings to one shard, and when it set off."""

    gradient: Gradient
    enter_s: float


@dataclass(eq=False, slots=True)
class Shard:
    """A server's share of a bucket.

    `reached` is how far it has come, in what workers wait for: its updates, or clocks. `read` [num_ranks] is how far
    it had when each worker read it last, `num_applied` [num_ranks] how many gradients of each worker it has taken.
    `pending` wait for their update; `readers` for what is reached. `last_part` is the one that set off last of those
    in the latest update.
    """

    server: int
    bucket: int
    num_bytes: float
    read: list[int]
    num_applied: list[int]
    reached: int = 0
    pending: list[Part] = field(default_factory=list)
    readers: list[tuple[int, simpy.Event]] = field(default_factory=list)
    last_part: Part | None = None


class UpdateRule:
    """An update takes `gradients_per_update` gradients, whoever's they are; workers read whatever is there."""

    def __init__(self, gradients_per_update: int = 1):
        self.gradients_per_update = gradients_per_update

    @property
    def waits_for_updates(self) -> bool:
        """Whether workers wait for every update, so that updates come one after the other and not in bursts."""
        return False

    @property
    def is_simple(self) -> bool:
        """Whether this is the rule that the compiled kernels implement: a subclass is another rule."""
        return type(self) is UpdateRule

    def version_read(self, model: int, shards: Iterable[int]) -> int:
        """Return the version that a worker computes on: it last read the `model` so, and the `shards` as they are."""
        return model

    def takes(self, gradient: Gradient) -> bool:
        """Say whether a gradient will be applied, or is too late; its first part to have its turn decides."""
        return True

    def reached(self, shard: Shard) -> int:
        """Return how far a shard has come whose pending parts have just been applied."""
        return shard.reached + 1

    def to_read(self, gradient: Gradient) -> int:
        """Return how far a shard must have come before the worker of a gradient reads it again."""
        return 0
