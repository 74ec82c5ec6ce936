"""Collectives composed of two others, for large buffers."""

from __future__ import annotations

from clustersim.collectives.checks import Cost
from clustersim.collectives.halving import halving_reduce_scatter, halving_reduce_scatter_cost
from clustersim.collectives.ring import half_ring_cost, ring_all_gather
from clustersim.collectives.schedule import Schedule
from clustersim.collectives.tree import tree_gather, tree_scatter, tree_scatter_cost


def scatter_all_gather_broadcast(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a broadcast of rank 0's buffer as a binomial scatter and then a ring all-gather.

    ceil(log2 n) + n - 1 steps; rank 0 sends 2 (n - 1) / n of the buffer (Barnett et al., "Interprocessor
    collective communication library (InterCom)", 1994).
    """
    return Schedule.concatenate([tree_scatter(num_ranks, num_bytes), ring_all_gather(num_ranks, num_bytes)])


def scatter_all_gather_broadcast_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return ceil(log2 n) + n - 1 messages that carry 2 (n - 1) / n b bytes."""
    return tree_scatter_cost(num_ranks, num_bytes).plus(half_ring_cost(num_ranks, num_bytes))


def scatter_gather_reduce(num_ranks: int, num_bytes: float) -> Schedule:
    """Schedule a reduction to rank 0 as a reduce-scatter by recursive halving and then a binomial gather.

    floor(log2 n) + ceil(log2 n) steps, in which rank 0 receives 2 (n - 1) / n of the buffer if n is a power of two;
    otherwise folding adds 2 steps (Rabenseifner, 2004).
    """
    return Schedule.concatenate([halving_reduce_scatter(num_ranks, num_bytes), tree_gather(num_ranks, num_bytes)])


def scatter_gather_reduce_cost(num_ranks: int, num_bytes: float) -> Cost:
    """Return the cost of the reduce-scatter by halving and of the binomial gather after it."""
    return halving_reduce_scatter_cost(num_ranks, num_bytes).plus(tree_scatter_cost(num_ranks, num_bytes))
