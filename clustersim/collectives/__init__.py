"""Collective algorithms: the messages of each step, from which rank to which rank.

There is no clock and no link in this package: `clustersim.network` computes times. Every algorithm takes the number of
ranks and the bytes, and then its own options. `num_bytes` is the whole buffer, as nccl-tests counts it: for all-gather,
reduce-scatter, scatter, gather and all-to-all that is n times what a rank keeps, contributes or has for one other rank.
Rank 0 is the root if there is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from clustersim.collectives.bruck import bruck_all_gather, dissemination_barrier
from clustersim.collectives.busbw import busbw_factor
from clustersim.collectives.chain import chain_broadcast, chain_reduce
from clustersim.collectives.checks import Cost
from clustersim.collectives.choose import choose
from clustersim.collectives.closed_form import closed_form, server_seconds, torus_ring_seconds, tree_seconds
from clustersim.collectives.composed import scatter_all_gather_broadcast, scatter_gather_reduce
from clustersim.collectives.double_tree import double_tree_all_reduce
from clustersim.collectives.doubling import doubling_all_gather, doubling_all_reduce
from clustersim.collectives.gloo import (
    gloo_reduce_scatter,
    gloo_ring_all_reduce,
    gloo_ring_reduce,
    gloo_tree_broadcast,
)
from clustersim.collectives.halving import halving_doubling_all_reduce, halving_reduce_scatter
from clustersim.collectives.hierarchical import hierarchical_all_reduce
from clustersim.collectives.horovod import HOROVOD, horovod_all_reduce
from clustersim.collectives.linear import (
    linear_all_to_all,
    linear_broadcast,
    linear_gather,
    linear_reduce,
    linear_scatter,
)
from clustersim.collectives.nvls import nvls_all_reduce, nvls_all_reduce_cost
from clustersim.collectives.pairwise import pairwise_all_to_all, pairwise_reduce_scatter
from clustersim.collectives.play import play
from clustersim.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter, ring_send_recv
from clustersim.collectives.schedule import Schedule, Step, Transfer
from clustersim.collectives.segmented_ring import segmented_ring_all_reduce
from clustersim.collectives.server import server_all_reduce, sharded_server_all_reduce
from clustersim.collectives.torus_ring import torus_ring_all_gather, torus_ring_all_reduce, torus_ring_reduce_scatter
from clustersim.collectives.tree import tree_all_reduce, tree_broadcast, tree_gather, tree_reduce, tree_scatter
from clustersim.errors import InputError
from clustersim.registry import Registry

Algorithm = Callable[..., Schedule]
"""Takes `num_ranks`, `num_bytes` and its own options, which have defaults."""


@lru_cache(maxsize=64)
def options_of(algorithm: Algorithm) -> frozenset[str]:
    """Return the names of an algorithm's own options, so that a caller passes only those.

    >>> sorted(options_of(ALL_REDUCE["hierarchical"]))
    ['groups', 'ranks_per_host']
    """
    return frozenset(inspect.signature(algorithm).parameters) - {"num_ranks", "num_bytes"}


def _checked(name: str, algorithm: Any) -> None:
    """Refuse an algorithm that does not take `num_ranks` and `num_bytes` first."""
    if not callable(algorithm) or list(inspect.signature(algorithm).parameters)[:2] != ["num_ranks", "num_bytes"]:
        message = f"'{name}' must be a function of num_ranks and num_bytes that returns a Schedule (got {algorithm!r})"
        raise InputError(message, got=repr(algorithm), allowed="a function of num_ranks and num_bytes")


def _table(op: str, algorithms: dict[str, Algorithm]) -> Registry[Algorithm]:
    """Return the algorithms of a collective, and those of installed packages: {op: function} by their name."""
    return Registry(f"{op} algorithm", algorithms, group="clustersim.collectives", part=op, check=_checked)


ALL_REDUCE = _table(
    "all-reduce",
    {
        "double-tree": double_tree_all_reduce,
        "doubling": doubling_all_reduce,
        "gloo-ring": gloo_ring_all_reduce,
        "halving-doubling": halving_doubling_all_reduce,
        "hierarchical": hierarchical_all_reduce,
        "ring": ring_all_reduce,
        "segmented-ring": segmented_ring_all_reduce,
        "server": server_all_reduce,
        "sharded-server": sharded_server_all_reduce,
        "torus-ring": torus_ring_all_reduce,
        "tree": tree_all_reduce,
    },
)
ALL_GATHER = _table(
    "all-gather",
    {
        "bruck": bruck_all_gather,
        "doubling": doubling_all_gather,
        "ring": ring_all_gather,
        "torus-ring": torus_ring_all_gather,
    },
)
REDUCE_SCATTER = _table(
    "reduce-scatter",
    {
        "gloo-ring": gloo_reduce_scatter,
        "halving": halving_reduce_scatter,
        "pairwise": pairwise_reduce_scatter,
        "ring": ring_reduce_scatter,
        "torus-ring": torus_ring_reduce_scatter,
    },
)
BROADCAST = _table(
    "broadcast",
    {
        "gloo-tree": gloo_tree_broadcast,
        "linear": linear_broadcast,
        "ring": chain_broadcast,
        "scatter-all-gather": scatter_all_gather_broadcast,
        "tree": tree_broadcast,
    },
)
REDUCE = _table(
    "reduce",
    {
        "gloo-ring": gloo_ring_reduce,
        "linear": linear_reduce,
        "ring": chain_reduce,
        "scatter-gather": scatter_gather_reduce,
        "tree": tree_reduce,
    },
)
SCATTER = _table("scatter", {"linear": linear_scatter, "tree": tree_scatter})
GATHER = _table("gather", {"linear": linear_gather, "tree": tree_gather})
ALL_TO_ALL = _table("all-to-all", {"linear": linear_all_to_all, "pairwise": pairwise_all_to_all})
SEND_RECV = _table("send-recv", {"ring": ring_send_recv})
BARRIER = _table("barrier", {"dissemination": dissemination_barrier})

COLLECTIVES: Registry[Registry[Algorithm]] = Registry(
    "collective",
    {
        "all-gather": ALL_GATHER,
        "all-reduce": ALL_REDUCE,
        "all-to-all": ALL_TO_ALL,
        "barrier": BARRIER,
        "broadcast": BROADCAST,
        "gather": GATHER,
        "reduce": REDUCE,
        "reduce-scatter": REDUCE_SCATTER,
        "scatter": SCATTER,
        "send-recv": SEND_RECV,
    },
)

IN_SWITCH: Registry[Registry[Algorithm]] = Registry(
    "collective of a switch", {"all-reduce": Registry("all-reduce algorithm of a switch", {"nvls": nvls_all_reduce})}
)
"""Algorithms with a reduction in the switch: their schedules have one more rank, the last one, for the switch."""

IN_HOST_MEMORY: Registry[Registry[Algorithm]] = Registry(
    "collective by way of host memory",
    {"all-reduce": Registry("all-reduce algorithm by way of host memory", {HOROVOD: horovod_all_reduce})},
)
"""Algorithms with a part among host memories: their schedules have as many more ranks, after the GPUs, for these."""


def algorithms_of(op: str) -> Registry[Algorithm]:
    """Return all algorithms of a collective, including those in a switch and through host memory.

    >>> "nvls" in algorithms_of("all-reduce"), "nvls" in ALL_REDUCE
    (True, False)
    """
    known = dict(COLLECTIVES[op])
    for further in (IN_SWITCH, IN_HOST_MEMORY):
        if op in further:
            known |= further[op]
    return Registry(COLLECTIVES[op].kind, known)


__all__ = [
    "ALL_GATHER",
    "ALL_REDUCE",
    "ALL_TO_ALL",
    "BARRIER",
    "BROADCAST",
    "COLLECTIVES",
    "GATHER",
    "IN_HOST_MEMORY",
    "IN_SWITCH",
    "REDUCE",
    "REDUCE_SCATTER",
    "SCATTER",
    "SEND_RECV",
    "Algorithm",
    "Cost",
    "Schedule",
    "Step",
    "Transfer",
    "algorithms_of",
    "busbw_factor",
    "choose",
    "closed_form",
    "nvls_all_reduce_cost",
    "options_of",
    "play",
    "server_seconds",
    "torus_ring_seconds",
    "tree_seconds",
]
