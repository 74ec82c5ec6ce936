"""How many links the longest route between two GPUs has."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from clustersim.topology.assemble import FabricRouter, HostRange
from clustersim.topology.topology import Topology

_MAX_ROUTES = 20_000


def diameter_hops(topology: Topology) -> int:
    """Return the number of links on the longest route between two GPUs.

    By the structure where the builder has one; route by route in a small graph; in a large one it is the
    most links that any pair of GPUs needs at least.
    """
    if isinstance(topology.router, FabricRouter):
        inside = max(_longest_inside(hosts) for hosts in topology.router.ranges)
        return max(inside, _longest_between(topology.router))
    if topology.num_gpus**2 <= _MAX_ROUTES:
        return max(len(topology.route(src, dst)) for src, dst in permutations(topology.gpus.tolist(), 2))
    return _longest_of_fewest(topology)


def _longest_inside(hosts: HostRange) -> int:
    paths = [hosts.plan.path(src, dst) for src, dst in permutations(hosts.plan.gpus, 2)]
    return max((len(path) for path in paths if path is not None), default=0)


def _longest_between(router: FabricRouter) -> int:
    """Return the links of the longest route between hosts, 0 where there is one host only."""
    fabric = router.fabric
    leave, enter = _ways(router)
    used = np.flatnonzero(leave > 0)
    alike = len(used) == len(leave) and len(np.unique(leave)) == 1 and len(np.unique(enter)) == 1
    num_sites = _sites(router)
    longest = 0
    for switch in used[:1] if fabric.alike_from_all and alike else used:
        total = np.where(enter > 0, leave[switch] + fabric.hops(int(switch)) + enter, 0)
        if num_sites[switch] < 2:
            total[switch] = 0
        longest = max(longest, int(total.max()))
    return longest


def _ways(router: FabricRouter) -> tuple[np.ndarray, np.ndarray]:
    """Return the most links from a GPU to each switch and from each to a GPU [num_switches], 0 without GPUs."""
    switch = router.fabric.port_switch
    leave = np.zeros(len(router.fabric.switch_names), dtype=np.int64)
    enter = np.zeros_like(leave)
    for hosts in router.ranges:
        first_port = hosts.port + np.arange(hosts.num_hosts) * len(hosts.plan.ports)
        for gpu in hosts.plan.gpus:
            port, links = hosts.plan.way_out(gpu, 0)
            np.maximum.at(leave, switch[first_port + port], len(links) + 1)
            port, links = hosts.plan.way_in(gpu, 0)
            np.maximum.at(enter, switch[first_port + port], len(links) + 1)
    return leave, enter


def _sites(router: FabricRouter) -> np.ndarray:
    """Return how many hosts each switch carries [num_switches]; in a bare host every GPU is on its own."""
    switch = router.fabric.port_switch
    owner = np.arange(len(switch))
    for hosts in router.ranges:
        if not hosts.plan.bare:
            ports = slice(hosts.port, hosts.port + hosts.num_hosts * len(hosts.plan.ports))
            owner[ports] -= (owner[ports] - hosts.port) % len(hosts.plan.ports)
    pairs = np.unique(np.stack([switch, owner], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=len(router.fabric.switch_names))


def _longest_of_fewest(topology: Topology) -> int:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    links = topology.links
    shape = (len(topology.node_names), len(topology.node_names))
    graph = csr_array((np.ones(len(links)), (links.src, links.dst)), shape=shape)
    longest = 0
    for some in np.array_split(topology.gpus, -(-topology.num_gpus // 64)):
        hops = dijkstra(graph, indices=some.tolist(), unweighted=True)[:, topology.gpus]
        longest = max(longest, int(hops[np.isfinite(hops)].max()))
    return longest
