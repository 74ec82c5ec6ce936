"""Asynchronous servers: every gradient is applied when it arrives."""

from __future__ import annotations

from typing import Literal

from clustersim.strategies.server_strategy import StaleServerStrategy
from clustersim.strategies.update_rule import UpdateRule


class Async(StaleServerStrategy):
    """A server applies every gradient when it arrives, to whatever version it then has (Dean et al., 2012).

    Nobody waits for anybody; with n workers of one speed a gradient is n - 1 versions old when it is applied.
    """

    kind: Literal["async"] = "async"

    def rule(self, num_workers: int) -> UpdateRule:
        return UpdateRule(gradients_per_update=1)
