"""What every strategy is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import simpy
from pydantic import Field, field_validator

from clustersim.errors import Mistake
from clustersim.execution.job import Job, OnProgress
from clustersim.program import Caps, Copies, bucket_caps
from clustersim.shortcuts import Shortcut
from clustersim.spec import Spec
from clustersim.stragglers import Awaited
from clustersim.topology import Topology


class Strategy(Spec):
    """A way for gradients to meet."""

    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset()
    """Shortcuts that give this class its exact result. Subclasses do not inherit them."""

    kind: str
    overlap: bool = Field(default=True, description="exchange gradients while backward still runs")
    buckets: str = Field(
        default="auto",
        description="which gradients travel together: `pytorch` (1 MiB, then 25 MiB), `megatron` (40 million "
        "parameters, or a million for each copy of the model if that is more), `horovod` (as many as fit into a "
        "buffer of 64 MiB), `layer` (each by itself), "
        "`tensor` (each tensor of a layer, weights and biases, by itself), `whole` (all in one) or a size that caps "
        "every bucket, such as `4 MiB`; `auto` is `megatron` beside `sharding`, else `pytorch`",
    )

    @field_validator("buckets", mode="before")
    @classmethod
    def _buckets_are_a_rule_or_a_size(cls, value: Any) -> Any:
        if isinstance(value, str | int | float):
            bucket_caps(value)
        return value

    def bucket_caps(self, gradient_bytes: float, num_copies: int, sharding: str | None) -> Caps:
        """Return the bytes that close a bucket, the last for all further ones; None where all is in one.

        `num_copies` of a model add up gradients of so many bytes a parameter, or share them out.
        """
        return bucket_caps(self.buckets, gradient_bytes, num_copies, sharding is not None)

    @property
    def by_tensor(self) -> bool:
        """Whether each tensor of a layer is a gradient of its own."""
        return self.buckets == "tensor"

    @property
    def holds_parents_up(self) -> bool:
        """Whether a GPU that adds others' gradients cannot go backward before theirs are there."""
        return False

    @property
    def sends_shared_twice(self) -> bool:
        """Whether the gradient of a matrix that two layers share travels with those of both."""
        return False

    def allows(self, shortcut: Shortcut) -> bool:
        """Return whether a shortcut is proved for this very class: a subclass has to list it again."""
        return shortcut in type(self).__dict__.get("proved_shortcuts", ())

    @property
    def round_length(self) -> int:
        """How many iterations of a worker make a round, in which each of them may be different."""
        return 1

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        """Return whom a worker waits for in the long run, of so many on so many hosts: here nobody but itself."""
        return Awaited(1, 1)

    @property
    def overlaps_backward(self) -> bool:
        """Whether gradients are exchanged while backward still runs."""
        return self.overlap

    @property
    def updates_on_gpu(self) -> bool:
        """Whether every worker runs the optimizer itself; otherwise what comes back to it is parameters."""
        return True

    @property
    def sends_alone(self) -> bool:
        """Whether a worker sends anything where there is no other."""
        return True

    def copies_made(self, is_whole: bool) -> Copies:
        """Return how often gradients are copied to travel, where each GPU has those of the `whole` model, or not."""
        return Copies()

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        """Return what is wrong with it for a compression whose gradients cannot be added on their way."""
        return []

    def sharding_mistakes(self, sharding: str) -> list[Mistake]:
        """Return what is wrong with it for copies of a model that share out what the optimizer keeps, or more."""
        return []

    def mistakes(self, num_workers: int) -> list[Mistake]:
        """Return what is wrong with it for so many workers; keys are as seen from the strategy."""
        return []

    def placed_mistakes(self, topology: Topology, gpus: np.ndarray, transport: str) -> list[Mistake]:
        """Return what is wrong with it on these GPUs [num_ranks] of a cluster and with a message library.

        Keys are as seen from the strategy.
        """
        return []

    @property
    def has_processes(self) -> bool:
        """Whether workers and servers may be processes whose threads carry so much."""
        return False

    def warnings(self) -> tuple[str, ...]:
        """Return what the user wrote here and what changes nothing."""
        return ()

    def facts(self, num_workers: int) -> dict[str, float]:
        """Return figures of the strategy itself, which need no simulation."""
        return {}

    def start_places(self, jobs: Sequence[Job], tell: OnProgress = lambda share: None) -> simpy.Event:
        """Put the workers of all `jobs` on the clock, one job for each place of a copy of the model; as `start`.

        Rank r of each job is part of copy r. Here the ranks of a place meet by themselves.
        """
        over = [self.start(jobs[0], tell), *(self.start(each) for each in jobs[1:])]
        return jobs[0].env.all_of(over)

    @abstractmethod
    def start(self, job: Job, tell: OnProgress = lambda share: None) -> simpy.Event:
        """Put the workers of a job on the clock; return an event that fires when what counts is done."""
