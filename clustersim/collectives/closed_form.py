"""Times of collectives on idle links in closed form, one formula for each algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from clustersim.collectives.bruck import bruck_all_gather_cost, dissemination_barrier_cost
from clustersim.collectives.chain import chain_cost
from clustersim.collectives.checks import Cost, check_collective
from clustersim.collectives.composed import scatter_all_gather_broadcast_cost, scatter_gather_reduce_cost
from clustersim.collectives.double_tree import double_tree_all_reduce_cost
from clustersim.collectives.doubling import doubling_all_gather_cost, doubling_all_reduce_cost
from clustersim.collectives.gloo import gloo_ring_reduce_cost, gloo_tree_broadcast_cost
from clustersim.collectives.halving import halving_doubling_all_reduce_cost, halving_reduce_scatter_cost
from clustersim.collectives.hierarchical import hierarchical_all_reduce_cost
from clustersim.collectives.linear import linear_broadcast_cost, linear_scatter_cost
from clustersim.collectives.ring import half_ring_cost, ring_all_reduce_cost, ring_send_recv_cost
from clustersim.collectives.segmented_ring import segmented_ring_all_reduce_cost
from clustersim.collectives.server import server_all_reduce_cost, sharded_server_all_reduce_cost
from clustersim.collectives.torus_ring import half_torus_ring_cost, half_torus_ring_costs, torus_ring_all_reduce_cost
from clustersim.collectives.tree import half_tree_cost, tree_all_reduce_cost, tree_scatter_cost
from clustersim.errors import InputError
from clustersim.registry import Registry

CostRule = Callable[..., Cost]
"""Takes the arguments of its algorithm: `num_ranks`, `num_bytes` and the algorithm's own options."""


def _costs(op: str, rules: dict[str, CostRule]) -> Registry[CostRule]:
    return Registry(f"{op} algorithm", rules)


COSTS: Registry[Registry[CostRule]] = Registry(
    "collective",
    {
        "all-gather": _costs(
            "all-gather",
            {
                "bruck": bruck_all_gather_cost,
                "doubling": doubling_all_gather_cost,
                "ring": half_ring_cost,
                "torus-ring": half_torus_ring_cost,
            },
        ),
        "all-reduce": _costs(
            "all-reduce",
            {
                "double-tree": double_tree_all_reduce_cost,
                "doubling": doubling_all_reduce_cost,
                "gloo-ring": ring_all_reduce_cost,
                "halving-doubling": halving_doubling_all_reduce_cost,
                "hierarchical": hierarchical_all_reduce_cost,
                "ring": ring_all_reduce_cost,
                "segmented-ring": segmented_ring_all_reduce_cost,
                "server": server_all_reduce_cost,
                "sharded-server": sharded_server_all_reduce_cost,
                "torus-ring": torus_ring_all_reduce_cost,
                "tree": tree_all_reduce_cost,
            },
        ),
        "all-to-all": _costs("all-to-all", {"linear": linear_scatter_cost, "pairwise": half_ring_cost}),
        "barrier": _costs("barrier", {"dissemination": dissemination_barrier_cost}),
        "broadcast": _costs(
            "broadcast",
            {
                "gloo-tree": gloo_tree_broadcast_cost,
                "linear": linear_broadcast_cost,
                "ring": chain_cost,
                "scatter-all-gather": scatter_all_gather_broadcast_cost,
                "tree": half_tree_cost,
            },
        ),
        "gather": _costs("gather", {"linear": linear_scatter_cost, "tree": tree_scatter_cost}),
        "reduce": _costs(
            "reduce",
            {
                "gloo-ring": gloo_ring_reduce_cost,
                "linear": linear_broadcast_cost,
                "ring": chain_cost,
                "scatter-gather": scatter_gather_reduce_cost,
                "tree": half_tree_cost,
            },
        ),
        "reduce-scatter": _costs(
            "reduce-scatter",
            {
                "gloo-ring": ring_all_reduce_cost,
                "halving": halving_reduce_scatter_cost,
                "pairwise": half_ring_cost,
                "ring": half_ring_cost,
                "torus-ring": half_torus_ring_cost,
            },
        ),
        "scatter": _costs("scatter", {"linear": linear_scatter_cost, "tree": tree_scatter_cost}),
        "send-recv": _costs("send-recv", {"ring": ring_send_recv_cost}),
    },
)


def closed_form(
    op: str,
    algorithm: str,
    num_ranks: int,
    num_bytes: float,
    latency_s: float,
    bytes_per_s: float,
    overhead_s: float = 0.0,
    **options: Any,
) -> float:
    """Return the seconds of a collective on an idle star; all ranks enter at the same time.

    Every rank has one full-duplex link of `bytes_per_s`; `latency_s` is from end to end, and each message costs
    `overhead_s` in addition. A rank starts its next step when its own sends and receives of the step before have ended.
    Reduction takes no time here. `torus-ring` is also exact on an idle torus with one rank at each node of its `dims`,
    since its messages never share a link. `options` are the algorithm's own.

    >>> closed_form("all-reduce", "ring", 4, 8e9, latency_s=1e-6, bytes_per_s=1e9)
    12.000006
    """
    check_collective(num_ranks, num_bytes)
    if not (latency_s >= 0 and overhead_s >= 0 and bytes_per_s > 0):
        raise InputError(
            "a closed form needs delays of 0 or more and a rate above 0 "
            f"(got latency_s = {latency_s}, overhead_s = {overhead_s}, bytes_per_s = {bytes_per_s})",
            got=f"{latency_s}, {overhead_s}, {bytes_per_s}",
        )
    return COSTS[op][algorithm](num_ranks, num_bytes, **options).seconds(latency_s + overhead_s, bytes_per_s)


def torus_ring_seconds(
    dims: Sequence[int], num_bytes: float, latency_s: Sequence[float], bytes_per_s: Sequence[float]
) -> float:
    """Return the seconds of a torus-ring all-reduce if the dimensions differ, as Gemini's do.

    `latency_s` and `bytes_per_s` have one value per dimension: 2 sum_d (d - 1) (latency_d + b_d / rate_d), with b_d
    the buffer over the product of the dimensions up to d.
    """
    halves = half_torus_ring_costs(math.prod(dims), num_bytes, dims)
    return sum(
        2 * half.seconds(latency, rate) for half, latency, rate in zip(halves, latency_s, bytes_per_s, strict=True)
    )


def server_seconds(weight_bytes: float, num_workers: int, bytes_per_s: float) -> float:
    """Return FireCaffe's communication time of a parameter server: |W| p / BW (Iandola et al., 2016).

    >>> server_seconds(weight_bytes=53e6, num_workers=32, bytes_per_s=1e9)
    1.696
    """
    return weight_bytes * num_workers / bytes_per_s


def tree_seconds(weight_bytes: float, num_workers: int, bytes_per_s: float) -> float:
    """Return FireCaffe's communication time of a reduction tree: 2 |W| log2(p) / BW (Iandola et al., 2016).

    >>> tree_seconds(weight_bytes=53e6, num_workers=32, bytes_per_s=1e9)
    0.53
    """
    return 2 * weight_bytes * math.log2(num_workers) / bytes_per_s
