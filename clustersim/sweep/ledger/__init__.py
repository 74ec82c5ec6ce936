"""Ledgers: SQLite files that keep each point of a sweep as soon as it is simulated.

A sweep that stops goes on from its ledger; ledgers of shards are merged; tables are written from them. Points are
simulated in `clustersim.sweep.task`.
"""

from clustersim.sweep.ledger.fill import fill
from clustersim.sweep.ledger.ledger import SweepLedger
from clustersim.sweep.ledger.merging import merge
from clustersim.sweep.ledger.shard import SweepShard
from clustersim.sweep.ledger.store import LedgerError, is_sqlite
from clustersim.sweep.ledger.sweep_in_ledger import PointCounts, SweepInLedger

__all__ = [
    "LedgerError",
    "PointCounts",
    "SweepInLedger",
    "SweepLedger",
    "SweepShard",
    "fill",
    "is_sqlite",
    "merge",
]
