"""When a server updates its shards of the model, and when a worker may pull them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import simpy


@dataclass(eq=False, slots=True)
class Gradient:
    """The gradient of one iteration of a worker, sent in parts: one for each bucket and server.

    `version_read` is the version of the whole model on which it was computed. `is_accepted` says whether it is applied
    or dropped, as soon as that is decided, for all parts together.
    """

    rank: int
    iteration: int
    parts_left: int
    version_read: int
    is_accepted: bool | None = None


@dataclass(eq=False, slots=True)
class GradientPart:
    """The part of a gradient that goes to one shard, and the time at which its push began."""

    gradient: Gradient
    enter_s: float


@dataclass(eq=False, slots=True)
class Shard:
    """A server's share of a bucket.

    `progress` is what workers wait for: the number of its updates, or a number of clocks. `pulled` [num_ranks] is the
    progress at which each worker last pulled it, `num_applied` [num_ranks] how many gradients of each worker it has
    applied. The parts in `pending` wait for their update, the `waiting_pulls` for the progress that each needs.
    `last_part` is the part of the latest update whose push began last.
    """

    server: int
    bucket: int
    num_bytes: float
    pulled: list[int]
    num_applied: list[int]
    progress: int = 0
    pending: list[GradientPart] = field(default_factory=list)
    waiting_pulls: list[tuple[int, simpy.Event]] = field(default_factory=list)
    last_part: GradientPart | None = None


class UpdateRule:
    """An update takes the next `gradients_per_update` gradients of any workers; workers pull without waiting.

    Subclasses override which gradients are accepted (`accepts`), and what a worker waits for before it pulls: the
    `progress` of a shard has to be at least the `needed_progress` of the gradient that the worker has pushed.
    """

    def __init__(self, gradients_per_update: int = 1):
        self.gradients_per_update = gradients_per_update

    @property
    def waits_for_updates(self) -> bool:
        """Whether workers wait for every update, so that updates come one by one and not in bursts."""
        return False

    @property
    def has_kernels(self) -> bool:
        """Whether the compiled kernels implement this rule; they implement no subclass."""
        return type(self) is UpdateRule

    def is_steady(self, num_updates: int) -> bool:
        """Return whether workers have their steady pace after so many updates; asked from the first full round on."""
        return True

    def warnings(self) -> tuple[str, ...]:
        """Return sentences, after a run, on why its figures are those of a job that was not steady, if they are."""
        return ()

    def applied(self, rank: int) -> None:
        """Note that a gradient of a worker is in the model."""

    def waited(self, num_updates: int) -> None:
        """Note that a worker waits before it may pull, after so many updates of the model."""

    def version_read(self, model_version: int, shard_versions: Iterable[int]) -> int:
        """Return the version on which a worker computes, from the versions of model and shards at its last pull."""
        return model_version

    def accepts(self, gradient: Gradient) -> bool:
        """Return whether a gradient is applied, not dropped; the first part that is served decides it for all."""
        return True

    def progress(self, shard: Shard) -> int:
        """Return the new progress of a shard whose pending parts have just been applied."""
        return shard.progress + 1

    def needed_progress(self, gradient: Gradient) -> int:
        """Return the progress that a shard needs before the worker that pushed this gradient may pull it."""
        return 0
