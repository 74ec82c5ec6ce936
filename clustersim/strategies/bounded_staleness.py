"""Bounded staleness (stale synchronous parallel): asynchronous, but nobody runs away from the slowest."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clustersim.stragglers import Awaited
from clustersim.strategies.server_strategy import StaleServerStrategy
from clustersim.strategies.update_rule import Gradient, Shard, UpdateRule


class BoundedStaleness(StaleServerStrategy):
    """A worker is at most `bound` iterations ahead of the slowest, and waits where it would be more (Ho et al., 2013).

    A worker's clock is the number of its gradients that are in the model. Its iteration c, from 0 on, begins when
    every worker's clock is c - `bound` at least, so that what it reads lacks none of their older gradients. The bound
    is one on clocks: staleness is counted in versions here as everywhere, of which every gradient makes one.
    """

    kind: Literal["bounded-staleness"] = "bounded-staleness"
    bound: int = Field(ge=0, description="iterations that a worker may be ahead of the slowest one")

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(num_workers, num_workers)  # a slower GPU stays slower, until the bound is reached

    def rule(self, num_workers: int) -> UpdateRule:
        return SlowestWorker(self.bound)


class SlowestWorker(UpdateRule):
    """Every gradient is applied when it arrives; a worker reads when the slowest is at most `bound` clocks behind."""

    def __init__(self, bound: int):
        super().__init__(gradients_per_update=1)
        self.bound = bound

    def reached(self, shard: Shard) -> int:
        return min(shard.num_applied)

    def to_read(self, gradient: Gradient) -> int:
        return gradient.iteration + 1 - self.bound
