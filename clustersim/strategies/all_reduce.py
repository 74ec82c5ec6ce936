"""Synchronous all-reduce: every worker ends up with the sum of all gradients."""

from __future__ import annotations

from typing import Literal

from clustersim.strategies.among_themselves import AmongThemselves


class AllReduce(AmongThemselves):
    """Workers add their gradients among themselves, by a collective algorithm.

    One bucket follows the other, as on the one communication stream of NCCL or DistributedDataParallel.
    """

    kind: Literal["all-reduce"] = "all-reduce"

    @property
    def marches(self) -> bool:
        return True
