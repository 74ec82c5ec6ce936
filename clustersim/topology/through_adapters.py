"""Hosts whose processes reach each other by the network adapter, as MPI does where it is told to use nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from clustersim.errors import InputError
from clustersim.topology.fabric_router import FabricRouter
from clustersim.topology.routes import Routes
from clustersim.topology.topology import Topology


@lru_cache(maxsize=4)
def through_adapters(topology: Topology) -> Topology:
    """Return a cluster whose messages from one host memory to another, or to itself, always go by an adapter.

    Where both are in one host they go to the port of the host's adapter and back, at the port's rate each way. Copies
    between GPUs and host memory stay as they are. The latest are kept, as what is found out about them is.
    """
    router = topology.router
    if not isinstance(router, FabricRouter):
        raise InputError(
            f"the topology '{topology.name}' was not built from hosts, so it has no adapters that messages inside a "
            "host could go by; take a transport without in_host: adapter",
            got=topology.name,
            allowed="a topology of hosts",
            key="transport",
        )
    looped = frozenset(np.setdiff1d(topology.memory, topology.gpus).tolist())
    return replace(topology, router=_ThroughAdapters(router, topology.node_hosts, looped), looped=looped)


class _ThroughAdapters:
    """Routes of a cluster of hosts, but those between `looped` nodes of one host leave it."""

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
