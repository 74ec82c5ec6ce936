"""The bisection bandwidth: the rate at which one half of the GPUs can send to the other."""

from __future__ import annotations

import math

import numpy as np

from clustersim.topology.topology import Topology

_LARGEST_FLOW = 2**30
"""scipy counts flow in 32-bit integers."""


def bisection_bytes_per_s(topology: Topology) -> float:
    """Return the capacity of the narrowest cut between the first half of the GPUs and the second, in one direction.

    By max-flow min-cut (Dinic's algorithm) it is the maximum flow from GPUs 0 to n // 2 - 1 together to all others. The
    cut is found with rates rounded to a 2**-30th of what those GPUs can send; its capacity is then summed from the
    exact rates. No flow leaves a single host, or NVLink domain, and comes back.
    """
    links = topology.links
    used = links.src != links.dst
    if topology.node_domains.max(initial=-1) == 0:
        inside = topology.node_domains == 0
        used &= inside[links.src] & inside[links.dst]
    real = np.flatnonzero(used)
    src, dst, rate = links.src[real], links.dst[real], links.bytes_per_s[real]
    reached = _sending_side(topology, src, dst, rate)
    return math.fsum(rate[reached[src] & ~reached[dst]])


def _sending_side(topology: Topology, src: np.ndarray, dst: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return which nodes are on the sending side of the narrowest cut [num_nodes]."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    num_nodes = len(topology.node_names)
    source, sink = num_nodes, num_nodes + 1
    senders, receivers = np.split(topology.gpus, [topology.num_gpus // 2])
    out_of = np.bincount(src, weights=rate, minlength=num_nodes)
    into = np.bincount(dst, weights=rate, minlength=num_nodes)
    unit = 2 * max(out_of[senders].sum(), into[receivers].max()) / _LARGEST_FLOW
    if unit == 0:
        side = np.zeros(num_nodes, dtype=bool)
        side[senders] = True
        return side
    tails = np.concatenate([src, np.full(len(senders), source), receivers])
    heads = np.concatenate([dst, senders, np.full(len(receivers), sink)])
    rates = np.concatenate([rate, 2 * out_of[senders], 2 * into[receivers]])
    capacity = np.clip(np.rint(rates / unit), 1, _LARGEST_FLOW).astype(np.int32)
    network = coo_array((capacity, (tails, heads)), shape=(num_nodes + 2, num_nodes + 2)).tocsr()
    residual = network - maximum_flow(network, source, sink).flow
    residual.data[residual.data < 0] = 0
    residual.eliminate_zeros()
    side = np.zeros(num_nodes + 2, dtype=bool)
    side[breadth_first_order(residual, source, return_predecessors=False)] = True
    return side[:num_nodes]
