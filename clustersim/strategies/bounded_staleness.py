"""Bounded staleness (stale synchronous parallel): asynchronous, but nobody runs away from the slowest."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clustersim.strategies.rule import Part, Rule, Shard
from clustersim.strategies.served import Stale


class BoundedStaleness(Stale):
    """A worker is at most `bound` iterations ahead of the slowest, and waits where it would be more (Ho et al., 2013).

    Versions are clocks here: a gradient of a worker's iteration c is applied to version c, and what the worker had
    read is the version v that every worker's first v iterations are in. So staleness is c - v, 0 to `bound`.
    """

    kind: Literal["bounded-staleness"] = "bounded-staleness"
    bound: int = Field(ge=0, description="iterations that a worker may be ahead of the slowest one")

    def rule(self, num_workers: int) -> Rule:
        return Clocks(self.bound)


class Clocks(Rule):
    """Every gradient is applied when it arrives; a worker reads when the slowest is at most `bound` clocks behind."""

    def __init__(self, bound: int):
        super().__init__(gradients_per_update=1)
        self.bound = bound

    def version_after(self, shard: Shard) -> int:
        return min(shard.num_applied)

    def written_by(self, shard: Shard, part: Part) -> int:
        return part.gradient.iteration + 1

    def to_read(self, part: Part) -> int:
        return part.gradient.iteration + 1 - self.bound
