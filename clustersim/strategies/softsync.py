"""n-softsync: a server updates after the gradients of a part of the workers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from clustersim.errors import Mistake
from clustersim.strategies.server_strategy import StaleServerStrategy
from clustersim.strategies.update_rule import UpdateRule


class Softsync(StaleServerStrategy):
    """A server updates after every floor(workers / n) gradients, from any workers (Zhang et al., 2016).

    No worker waits: after its push it pulls the current parameters. With n = 1 an update takes as many gradients as at
    a synchronous server. With n = workers this is asynchronous. The staleness is about n and hardly ever above 2 n.
    """

    supports_layouts: ClassVar[bool] = True
    kind: Literal["softsync"] = "softsync"
    n: int = Field(default=1, ge=1, description="updates in the time in which every worker pushes one gradient")

    def mistakes(self, num_workers: int) -> list[Mistake]:
        if self.n <= num_workers:
            return []
        message = f"{num_workers} workers push {num_workers} gradients per round, too few for {self.n} updates"
        return [Mistake(message, key="n", got=str(self.n), allowed=f"1 to {num_workers}")]

    def update_rule(self, num_workers: int) -> UpdateRule:
        return UpdateRule(gradients_per_update=num_workers // self.n)
