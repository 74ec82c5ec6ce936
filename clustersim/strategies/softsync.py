"""n-softsync: the server updates when some of the workers have handed in a gradient."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clustersim.errors import Mistake
from clustersim.strategies.server_strategy import StaleServerStrategy
from clustersim.strategies.update_rule import UpdateRule


class Softsync(StaleServerStrategy):
    """A server updates after every floor(workers / n) gradients, whoever's they are (Zhang et al., 2016).

    Nobody waits: a worker that has pushed pulls what is there. n = 1 gathers as many gradients as a synchronous
    server, n = workers is asynchronous; the staleness is about n and hardly ever above 2 n.
    """

    kind: Literal["softsync"] = "softsync"
    n: int = Field(default=1, ge=1, description="updates in the time in which every worker hands in one gradient")

    def mistakes(self, num_workers: int) -> list[Mistake]:
        if self.n <= num_workers:
            return []
        message = f"{num_workers} workers hand in {num_workers} gradients a round, too few for {self.n} updates"
        return [Mistake(message, key="n", got=str(self.n), allowed=f"1 to {num_workers}")]

    def rule(self, num_workers: int) -> UpdateRule:
        return UpdateRule(gradients_per_update=num_workers // self.n)
