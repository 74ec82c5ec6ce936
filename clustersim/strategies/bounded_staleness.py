"""Bounded staleness (stale synchronous parallel): asynchronous, with a bound on the lead over the slowest worker."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from clustersim.stragglers import Awaited
from clustersim.strategies.server_strategy import StaleServerStrategy
from clustersim.strategies.update_rule import Gradient, Shard, UpdateRule


class BoundedStaleness(StaleServerStrategy):
    """A worker waits if it would be more than `bound` iterations ahead of the slowest one (Ho et al., 2013).

    The clock of a worker is the number of its gradients in the model. A worker begins its iteration c, counted from 0,
    when every worker's clock is at least c - `bound`. So the parameters that it reads contain all older gradients. The
    bound applies to clocks. Staleness is counted in versions, as for every strategy, and every gradient makes one.
    """

    supports_layouts: ClassVar[bool] = True
    kind: Literal["bounded-staleness"] = "bounded-staleness"
    bound: int = Field(ge=0, description="iterations that a worker may be ahead of the slowest one")

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(num_workers, num_workers)  # a slower GPU stays slower, so the bound is reached in the end

    def update_rule(self, num_workers: int) -> UpdateRule:
        return SlowestWorker(self.bound)


class SlowestWorker(UpdateRule):
    """Apply every gradient when it arrives; a worker pulls when the slowest is at most `bound` clocks behind."""

    def __init__(self, bound: int):
        super().__init__(gradients_per_update=1)
        self.bound = bound

    def progress(self, shard: Shard) -> int:
        return min(shard.num_applied)

    def needed_progress(self, gradient: Gradient) -> int:
        return gradient.iteration + 1 - self.bound
