"""Clusters whose messages use other network adapters than usual: one adapter per socket, or always an adapter."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.errors import InputError
from clustersim.topology.fabric_router import FabricRouter
from clustersim.topology.routes import Routes
from clustersim.topology.topology import Topology

_CACHE: WeakKeyDictionary[Topology, Topology] = WeakKeyDictionary()


def one_adapter_per_socket(topology: Topology) -> Topology:
    """Return a cluster whose channels between hosts use the adapter near the first GPU of their socket.

    NCCL does so if all adapters of a host report the same system image GUID: it treats them as one card (`net.asic` in
    src/graph/search.cc and topo.cc), finds one channel, and every group of GPUs finds the same one. Messages between
    single GPUs still use the adapter near each GPU. Within the host the path of the socket's first GPU is used for its
    other GPUs.
    """
    if topology not in _CACHE:
        first_of = np.arange(len(topology.node_kinds))
        _, first, socket = np.unique(topology.memory, return_index=True, return_inverse=True)
        first_of[topology.gpus] = topology.gpus[first][socket]
        _CACHE[topology] = replace(topology, first_of_socket=first_of)
    return _CACHE[topology]


@lru_cache(maxsize=4)
def through_adapters(topology: Topology) -> Topology:
    """Return a cluster whose messages from one host memory to another, or to itself, always go through an adapter.

    Within one host they go to the port of the host's adapter and back, at the port's rate in each direction, as with
    MPI that is configured to use the adapter only. Copies between GPUs and host memory are unchanged. The latest
    results are cached, together with what is cached for these clusters.
    """
    router = topology.router
    if not isinstance(router, FabricRouter):
        raise InputError(
            f"the topology '{topology.name}' was not built from hosts, so it has no adapters for messages within a "
            "host; use a transport without in_host: adapter",
            got=topology.name,
            allowed="a topology of hosts",
            key="transport",
        )
    looped = frozenset(np.setdiff1d(topology.memory, topology.gpus).tolist())
    return replace(topology, router=_ThroughAdapters(router, topology.node_hosts, looped), looped=looped)


class _ThroughAdapters:
    """Routes of a cluster of hosts; those between `looped` nodes of one host leave it."""

    def __init__(self, router: FabricRouter, node_hosts: np.ndarray, looped: frozenset[int]):
        self._router = router
        self._hosts = node_hosts
        self._is_looped = np.zeros(len(node_hosts), dtype=bool)
        self._is_looped[list(looped)] = True

    def __call__(self, src: int, dst: int) -> list[int]:
        links: list[int] = self.routes(np.array([src]), np.array([dst])).links.tolist()
        return links

    def routes(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes of many pairs of nodes [n]."""
        loops = self._is_looped[src] & self._is_looped[dst] & (self._hosts[src] == self._hosts[dst])
        around, others = np.flatnonzero(loops), np.flatnonzero(~loops)
        return Routes.join(
            len(src),
            [
                self._router.routes(src[others], dst[others]).spread(others, len(src)),
                self._router.outside(src[around], dst[around]).spread(around, len(src)),
            ],
        )
