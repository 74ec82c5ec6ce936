"""The network between hosts: switches, the links between them, and the switch of every host port."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from functools import cached_property

import numpy as np

from clustersim.topology.routes import Routes
from clustersim.topology.wire import Cable, WireColumns


class Fabric(ABC):
    """Switches and links, numbered from 0, with routes by arithmetic instead of by search.

    `port_switch` [num_ports] is the switch of every host port; `access` is the link between the two, in each direction.
    Routes between switches need no table, so a machine of ten thousand routers needs only its columns. `is_symmetric`
    says that the network looks the same from every switch. Switches from `num_edge_switches` on have no hosts.
    """

    is_symmetric = False

    def __init__(self, switch_names: list[str], switch_kind: str, port_switch: np.ndarray, access: Cable):
        self.switch_names = switch_names
        self.num_edge_switches = len(switch_names)
        self.switch_kind = switch_kind
        self.port_switch = port_switch
        self.access = access
        self.wires = WireColumns()
        self.torus_dims: tuple[int, ...] | None = None

    @abstractmethod
    def route(self, src: int, dst: int, choice: int) -> list[int]:
        """Return the links between two switches; `choice` selects among equal-cost routes."""

    @abstractmethod
    def edge_routes(self, src: np.ndarray, dst: np.ndarray, choice: np.ndarray) -> Routes:
        """Return the `route` of each of many pairs [n] of switches with hosts; `choice` is uint64."""

    def routes(self, src: np.ndarray, dst: np.ndarray, choice: np.ndarray) -> Routes:
        """Return the `route` of each of many pairs [n]."""
        others = (src >= self.num_edge_switches) | (dst >= self.num_edge_switches)
        if not others.any():
            return self.edge_routes(src, dst, choice)
        edges, searched = np.flatnonzero(~others), np.flatnonzero(others)
        found = [self.search(*ends) for ends in zip(src[searched].tolist(), dst[searched].tolist(), strict=True)]
        direct = self.edge_routes(src[edges], dst[edges], choice[edges])
        parts = [direct.spread(edges, len(src)), Routes.one_by_one(found).spread(searched, len(src))]
        return Routes.join(len(src), parts)

    @abstractmethod
    def hops(self, src: int) -> np.ndarray:
        """Return the number of links from a switch with hosts to each switch [num_switches], on its routes."""

    def search(self, src: int, dst: int) -> list[int]:
        """Return a route with the fewest links, for pairs of switches without hosts."""
        arrival: dict[int, tuple[int, int]] = {}
        queue = deque([src])
        while dst != src and dst not in arrival:
            here = queue.popleft()
            for link, there in self._neighbours[here]:
                if there != src and there not in arrival:
                    arrival[there] = (link, here)
                    queue.append(there)
        links = []
        while dst != src:
            link, dst = arrival[dst]
            links.append(link)
        return links[::-1]

    @cached_property
    def _neighbours(self) -> list[list[tuple[int, int]]]:
        neighbours: list[list[tuple[int, int]]] = [[] for _ in self.switch_names]
        for link, (src, dst) in enumerate(zip(self.wires.src.tolist(), self.wires.dst.tolist(), strict=True)):
            neighbours[src].append((link, dst))
        return neighbours
