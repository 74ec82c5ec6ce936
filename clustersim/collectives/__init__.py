"""Collective algorithms: who sends what to whom, and in which step.

No clock and no links in here: `clustersim.network` says how long it takes.
"""

from __future__ import annotations

from collections.abc import Callable

from clustersim.collectives.linear import (
    linear_all_to_all,
    linear_broadcast,
    linear_gather,
    linear_reduce,
    linear_scatter,
)
from clustersim.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter, ring_send_recv
from clustersim.collectives.schedule import Schedule, Step, Transfer
from clustersim.collectives.server import server_all_reduce, sharded_server_all_reduce
from clustersim.collectives.tree import tree_all_reduce, tree_broadcast, tree_gather, tree_reduce, tree_scatter
from clustersim.registry import Registry

Algorithm = Callable[..., Schedule]
"""Takes `num_ranks`, `num_bytes` and its own options; without options it has sensible ones."""

ALL_REDUCE: Registry[Algorithm] = Registry(
    "all-reduce algorithm",
    {
        "ring": ring_all_reduce,
        "server": server_all_reduce,
        "sharded-server": sharded_server_all_reduce,
        "tree": tree_all_reduce,
    },
)
BROADCAST: Registry[Algorithm] = Registry("broadcast algorithm", {"linear": linear_broadcast, "tree": tree_broadcast})
REDUCE: Registry[Algorithm] = Registry("reduce algorithm", {"linear": linear_reduce, "tree": tree_reduce})
SCATTER: Registry[Algorithm] = Registry("scatter algorithm", {"linear": linear_scatter, "tree": tree_scatter})
GATHER: Registry[Algorithm] = Registry("gather algorithm", {"linear": linear_gather, "tree": tree_gather})
ALL_GATHER: Registry[Algorithm] = Registry("all-gather algorithm", {"ring": ring_all_gather})
REDUCE_SCATTER: Registry[Algorithm] = Registry("reduce-scatter algorithm", {"ring": ring_reduce_scatter})
ALL_TO_ALL: Registry[Algorithm] = Registry("all-to-all algorithm", {"linear": linear_all_to_all})
SEND_RECV: Registry[Algorithm] = Registry("send-recv algorithm", {"ring": ring_send_recv})

COLLECTIVES: Registry[Registry[Algorithm]] = Registry(
    "collective",
    {
        "all-gather": ALL_GATHER,
        "all-reduce": ALL_REDUCE,
        "all-to-all": ALL_TO_ALL,
        "broadcast": BROADCAST,
        "gather": GATHER,
        "reduce": REDUCE,
        "reduce-scatter": REDUCE_SCATTER,
        "scatter": SCATTER,
        "send-recv": SEND_RECV,
    },
)

__all__ = [
    "ALL_GATHER",
    "ALL_REDUCE",
    "ALL_TO_ALL",
    "BROADCAST",
    "COLLECTIVES",
    "GATHER",
    "REDUCE",
    "REDUCE_SCATTER",
    "SCATTER",
    "SEND_RECV",
    "Algorithm",
    "Schedule",
    "Step",
    "Transfer",
]
