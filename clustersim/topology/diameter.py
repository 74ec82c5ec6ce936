"""The number of links on the longest route between two GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from clustersim.topology.fabric_router import FabricRouter
from clustersim.topology.host_plan import HostRange
from clustersim.topology.topology import Topology

_MAX_ROUTES = 20_000


def diameter_hops(topology: Topology) -> int:
    """Return the number of links on the longest route between two GPUs.

    By the structure if the topology has a fabric; route by route in a small graph; in a large graph the largest number
    of links on a shortest path between two GPUs.
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
    """Return the links of the longest route between hosts, 0 if there is only one host.

    Routes into and out of a host have equal lengths. A route between GPUs on one switch needs two hosts.
    """
    fabric = router.fabric
    first, second = _switch_distances(router)
    used = np.flatnonzero(first > 0)
    is_uniform = len(used) == len(first) and len(np.unique(first)) == 1
    longest = int(np.where(second > 0, first + second, 0).max())
    for switch in used[:1] if fabric.is_symmetric and is_uniform else used:
        total = np.where(first > 0, first[switch] + fabric.hops(int(switch)) + first, 0)
        total[switch] = 0
        longest = max(longest, int(total.max()))
    return longest


def _switch_distances(router: FabricRouter) -> tuple[np.ndarray, np.ndarray]:
    """Return the most links from a GPU to each switch [num_switches], and the most from another host; 0 for none."""
    switches, sites, lengths = (np.concatenate(columns) for columns in zip(*_distances(router), strict=True))
    order = np.lexsort((lengths, sites, switches))
    switches, sites, lengths = switches[order], sites[order], lengths[order]
    last = np.ones(len(sites), dtype=bool)
    last[:-1] = (sites[1:] != sites[:-1]) | (switches[1:] != switches[:-1])
    switches, lengths = switches[last], lengths[last]
    first = np.zeros(len(router.fabric.switch_names), dtype=np.int64)
    second = np.zeros_like(first)
    order = np.lexsort((-lengths, switches))
    place = np.arange(len(order)) - np.searchsorted(switches[order], switches[order])
    for column, index in ((first, 0), (second, 1)):
        column[switches[order[place == index]]] = lengths[order[place == index]]
    return first, second


def _distances(router: FabricRouter) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield switch, site and number of links of each GPU's route out.

    A site is a host, several joined hosts, or a GPU of a bare host.
    """
    num_hosts = router.ranges[-1].host + router.ranges[-1].num_hosts
    for hosts in router.ranges:
        copy = np.arange(hosts.num_copies)
        for number, gpu in enumerate(hosts.plan.gpus):
            port, links = hosts.plan.route_out(gpu, 0)
            site = (
                num_hosts + hosts.gpu + copy * len(hosts.plan.gpus) + number if hosts.plan.bare else hosts.first_hosts()
            )
            switch = router.fabric.port_switch[hosts.port + copy * len(hosts.plan.ports) + port]
            yield switch, site, np.full(hosts.num_copies, len(links) + 1)


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
