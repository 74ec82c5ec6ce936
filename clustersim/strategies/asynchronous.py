"""Asynchronous parameter servers: every gradient is applied when it arrives."""

from __future__ import annotations

from typing import ClassVar, Literal

from clustersim.strategies.server_strategy import StaleServerStrategy
from clustersim.strategies.update_rule import UpdateRule


class Async(StaleServerStrategy):
    """A server applies every gradient when it arrives, to the version that it has then (Dean et al., 2012).

    No worker waits for another. With n workers of equal speed a gradient is n - 1 versions old when it is applied.
    """

    supports_layouts: ClassVar[bool] = True
    kind: Literal["async"] = "async"

    def update_rule(self, num_workers: int) -> UpdateRule:
        return UpdateRule(gradients_per_update=1)
