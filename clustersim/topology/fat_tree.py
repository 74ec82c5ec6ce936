"""The three-tier fat tree of identical switches."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from clustersim.topology.fabric import Fabric
from clustersim.topology.network_spec import MixedNetworkSpec, Routing
from clustersim.topology.routes import Routes
from clustersim.topology.wire import Cable, LinkName, wire


class FatTreeFabric(Fabric):
    """k pods of k / 2 edge and k / 2 aggregation switches, and (k / 2)**2 core switches.

    Aggregation switch a of every pod reaches the cores a k / 2 to (a + 1) k / 2 - 1, so the choice of a core determines
    the aggregation switch in both pods.
    """

    def __init__(self, k: int, num_ports: int, access: Cable, lower: Cable, upper: Cable):
        half = self._half = k // 2
        names = [
            f"{tier}-{pod}-{number}" for tier in ("edge", "aggregation") for pod in range(k) for number in range(half)
        ]
        names += [f"core-{number}" for number in range(half * half)]
        super().__init__(names, "switch", np.arange(num_ports) // half, access)
        self._num_edges = self.num_edge_switches = k * half
        switch, index = np.divmod(np.arange(self._num_edges * half), half)
        aggregation = self._num_edges + switch // half * half + index
        core = 2 * self._num_edges + switch % half * half + index
        self._lower_up = self.wires.add(switch, aggregation, lower)
        self._lower_down = self.wires.add(aggregation, switch, lower)
        self._upper_up = self.wires.add(self._num_edges + switch, core, upper)
        self._upper_down = self.wires.add(core, self._num_edges + switch, upper)

    def route(self, src: int, dst: int, choice: int) -> list[int]:
        """Return the links up to an aggregation switch (same pod) or a core (other pod) and down, by the hash."""
        if src >= self._num_edges or dst >= self._num_edges:
            return self.search(src, dst)
        if src == dst:
            return []
        half = self._half
        aggregation, core = choice % half, choice // half % half
        up, down = self._lower_up + src * half + aggregation, self._lower_down + dst * half + aggregation
        if src // half == dst // half:
            return [up, down]
        climb = (src // half * half + aggregation) * half + core
        descend = (dst // half * half + aggregation) * half + core
        return [up, self._upper_up + climb, self._upper_down + descend, down]

    def edge_routes(self, src: np.ndarray, dst: np.ndarray, choice: np.ndarray) -> Routes:
        """Return the links between edge switches [n]: none, up and down in a pod (2), or over the core (4)."""
        half = self._half
        index = (choice % np.uint64(half * half)).astype(np.int64)
        core, aggregation = np.divmod(index, half)
        climb = (src // half * half + aggregation) * half + core
        descend = (dst // half * half + aggregation) * half + core
        links = [
            self._lower_up + src * half + aggregation,
            self._upper_up + climb,
            self._upper_down + descend,
            self._lower_down + dst * half + aggregation,
        ]
        apart, other_pod = src != dst, src // half != dst // half
        return Routes.of_rows(np.stack(links, axis=1), np.stack([apart, other_pod, other_pod, apart], axis=1))

    def hops(self, src: int) -> np.ndarray:
        pod = np.arange(self._num_edges) // self._half
        edges = np.where(pod == src // self._half, 2, 4)
        edges[src] = 0
        cores = np.full(self._half**2, 2)
        return np.concatenate([edges, np.where(pod == src // self._half, 1, 3), cores])


class AdaptiveFatTreeFabric(Fabric):
    """The fat tree with every message on all its shortest paths: links that share a load are one link of their sum.

    The k / 2 links of an edge switch to its pod's aggregation switches are one link, and so are the (k / 2)**2 links of
    a pod to the cores. A pod's aggregation switches are one node, all cores another.
    """

    def __init__(self, k: int, num_ports: int, access: Cable, lower: Cable, upper: Cable):
        half = self._half = k // 2
        names = [f"edge-{pod}-{number}" for pod in range(k) for number in range(half)]
        names += [f"aggregations-{pod}" for pod in range(k)] + ["cores"]
        super().__init__(names, "switch", np.arange(num_ports) // half, access)
        self.num_edge_switches = k * half
        edge, pod = np.arange(k * half), np.arange(k)
        pods, cores = k * half + pod, np.full(k, k * half + k)
        lower = lower._replace(bytes_per_s=half * lower.bytes_per_s)
        upper = upper._replace(bytes_per_s=half * half * upper.bytes_per_s)
        self._lower_up = self.wires.add(edge, pods[edge // half], lower)
        self._lower_down = self.wires.add(pods[edge // half], edge, lower)
        self._upper_up = self.wires.add(pods, cores, upper)
        self._upper_down = self.wires.add(cores, pods, upper)

    def route(self, src: int, dst: int, choice: int) -> list[int]:
        """Return the links up to the pod's aggregation switches or the cores, and down; `choice` is not used."""
        if max(src, dst) >= self.num_edge_switches:
            return self.search(src, dst)
        if src == dst:
            return []
        up, down, half = self._lower_up + src, self._lower_down + dst, self._half
        if src // half == dst // half:
            return [up, down]
        return [up, self._upper_up + src // half, self._upper_down + dst // half, down]

    def edge_routes(self, src: np.ndarray, dst: np.ndarray, choice: np.ndarray) -> Routes:
        half = self._half
        links = [self._lower_up + src, self._upper_up + src // half, self._upper_down + dst // half]
        apart, other_pod = src != dst, src // half != dst // half
        used = np.stack([apart, other_pod, other_pod, apart], axis=1)
        return Routes.of_rows(np.stack([*links, self._lower_down + dst], axis=1), used)

    def hops(self, src: int) -> np.ndarray:
        pod = np.arange(2 * self._half)
        edges = np.where(np.arange(self.num_edge_switches) // self._half == src // self._half, 2, 4)
        edges[src] = 0
        return np.concatenate([edges, np.where(pod == src // self._half, 1, 3), [2]])


class FatTree(MixedNetworkSpec):
    """Three tiers of identical k-port switches (Al-Fares, Loukissas and Vahdat, 2008): full bisection.

    A host's network ports are numbered one after another and fill the edge switches in order.
    """

    kind: Literal["fat-tree"] = "fat-tree"
    k: int = Field(
        ge=2, le=158, multiple_of=2, description="ports of a switch; the network has k**3 / 4 ports for hosts"
    )
    link: LinkName = Field(description="every link, each way: a link sheet's name, or a rate such as '100 Gbit/s'")
    routing: Routing = "hashed"

    def max_hosts(self, ports_per_host: float) -> int:
        return int(self.k**3 / 4 / ports_per_host + 1e-9)

    def fabric(self, port_host: np.ndarray) -> Fabric:
        access, lower, upper = (wire(self.link, role, self.hop) for role in ("access", "aggregation", "core"))
        fabric = AdaptiveFatTreeFabric if self.routing == "adaptive" else FatTreeFabric
        return fabric(self.k, len(port_host), access, lower, upper)
