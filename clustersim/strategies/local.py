"""Local SGD: workers train independently, and average their weights every few iterations."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from clustersim.errors import Mistake
from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Rendezvous
from clustersim.execution.worker import BucketSender, Process, compute, update
from clustersim.shortcuts import Shortcut
from clustersim.strategies.collective_strategy import CollectiveStrategy


class Local(CollectiveStrategy):
    """Every worker updates its own replica; every `steps` iterations the replicas are averaged (Stich, 2019).

    Averaging is an all-reduce of all weights after the update. Whole rounds of `steps` iterations are simulated.
    """

    supports_layouts: ClassVar[bool] = True
    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset({Shortcut.FOLDED_LAYOUTS})

    kind: Literal["local"] = "local"
    steps: int = Field(default=4, ge=1, description="iterations from one averaging to the next")
    overlap: Literal[False] = Field(
        default=False, description="weights are averaged after the update, so no computation overlaps it"
    )

    @property
    def round_length(self) -> int:
        return self.steps

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        message = f"local averages weights, and {compression} compresses gradients only; take fp16 or none"
        return [Mistake(message, key="kind", got=self.kind, allowed="with compression fp16 or none")]

    def iterate(self, job: Job, rendezvous: Rendezvous, rank: int, iteration: int) -> Process:
        """Compute a gradient, update the own replica, and average it with the others at the end of a round."""
        yield from compute(job, rank, iteration)
        yield from update(job, rank, iteration)
        job.times.computed_s[rank, iteration] = job.times.exchanged_s[rank, iteration] = job.env.now
        if (iteration + 1) % self.steps == 0:
            sender = BucketSender(job, rendezvous, rank, iteration)
            sender.send_all()
            yield from sender.drain()
