"""Two tiers of switches, with any oversubscription."""

from __future__ import annotations

from math import ceil
from typing import Literal

import numpy as np
from pydantic import Field

from clustersim.errors import InputError
from clustersim.topology.fabric import Fabric
from clustersim.topology.network_spec import MixedNetworkSpec, Routing
from clustersim.topology.routes import Routes
from clustersim.topology.wire import Cable, LinkName, wire


class LeafSpineFabric(Fabric):
    """Leaves with host ports, each with one link (or trunk) to every spine."""

    def __init__(self, num_leaves: int, num_spines: int, port_switch: np.ndarray, access: Cable, uplink: Cable):
        names = [f"leaf-{number}" for number in range(num_leaves)] + [f"spine-{number}" for number in range(num_spines)]
        super().__init__(names, "switch", port_switch, access)
        self._num_leaves, self._num_spines = num_leaves, num_spines
        self.num_edge_switches = num_leaves
        leaf, spine = np.divmod(np.arange(num_leaves * num_spines), num_spines)
        self._up = self.wires.add(leaf, num_leaves + spine, uplink)
        self._down = self.wires.add(num_leaves + spine, leaf, uplink)

    def route(self, src: int, dst: int, choice: int) -> list[int]:
        """Return no link within a leaf, otherwise the links up to the spine that the hash selects and down."""
        if src >= self._num_leaves or dst >= self._num_leaves:
            return self.search(src, dst)
        if src == dst:
            return []
        spine = choice % self._num_spines
        return [self._up + src * self._num_spines + spine, self._down + dst * self._num_spines + spine]

    def edge_routes(self, src: np.ndarray, dst: np.ndarray, choice: np.ndarray) -> Routes:
        spine = (choice % np.uint64(self._num_spines)).astype(np.int64)
        links = np.stack([self._up + src * self._num_spines + spine, self._down + dst * self._num_spines + spine], 1)
        return Routes.of_rows(links, np.repeat((src != dst)[:, None], 2, axis=1))

    def hops(self, src: int) -> np.ndarray:
        hops = np.where(np.arange(len(self.switch_names)) < self._num_leaves, 2, 1)
        hops[src] = 0
        return hops


class LeafSpine(MixedNetworkSpec):
    """Leaf switches under spine switches; every leaf reaches every spine.

    A leaf's links to the spines together have 1 / oversubscription of the rate of its host ports, split evenly over the
    spines; a link with a higher rate than one `link` represents a trunk. With adaptive routing the spines are one node,
    and a leaf's links to them one link of their sum. With `rails`, NIC i of each of a group of
    hosts goes to leaf i of the group's leaves, instead of all to one leaf.
    """

    kind: Literal["leaf-spine"] = "leaf-spine"
    num_leaves: int = Field(ge=1, le=10_000, description="leaf switches")
    hosts_per_leaf: int = Field(
        ge=1, description="hosts on a leaf (with `rails`: on a group of leaves, one for each NIC)"
    )
    oversubscription: float = Field(
        default=1.0, ge=0.001, le=1_000_000, description="a leaf's rate towards hosts over its rate towards spines"
    )
    spines: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="spine switches; by default the fewest whose uplinks are no faster than `link`; "
        "of no effect with `routing: adaptive`, where the uplinks of a leaf act as one",
    )
    rails: bool = Field(default=False, description="whether each NIC of a host is on a separate leaf")
    link: LinkName = Field(
        description="link of a host to its leaf, each way: a link sheet's name, or a rate such as '100 Gbit/s'"
    )
    routing: Routing = "hashed"

    def max_hosts(self, ports_per_host: float) -> int:
        if not self.rails:
            return self.num_leaves * self.hosts_per_leaf
        if ports_per_host != int(ports_per_host):
            message = "with `rails`, all hosts must have the same number of network cards"
            raise InputError(
                message, got="hosts of several kinds", allowed="hosts with the same number of cards", key="rails"
            )
        return self.num_leaves // int(ports_per_host) * self.hosts_per_leaf

    def num_inner_links(self) -> int:
        if self.routing == "adaptive":
            return 2 * self.num_leaves
        most = self.hosts_per_leaf * (1 if self.rails else self.nics or 1)
        return 2 * self.num_leaves * (self.spines or ceil(most / self.oversubscription))

    def fabric(self, port_host: np.ndarray) -> Fabric:
        access, uplink = wire(self.link, "access", self.hop), wire(self.link, "spine", self.hop)
        leaves = self._leaves(port_host)
        num_ports = self.hosts_per_leaf if self.rails else self.hosts_per_leaf * int(np.bincount(port_host).max())
        is_adaptive = self.routing == "adaptive"
        spines = 1 if is_adaptive else self.spines or max(1, ceil(num_ports / self.oversubscription))
        uplink = uplink._replace(bytes_per_s=num_ports * access.bytes_per_s / (self.oversubscription * spines))
        fabric = LeafSpineFabric(self.num_leaves, spines, leaves, access, uplink)
        if is_adaptive:
            fabric.switch_names[-1] = "spines"
        return fabric

    def _leaves(self, port_host: np.ndarray) -> np.ndarray:
        """Return the leaf of every port [num_ports]."""
        block = port_host // self.hosts_per_leaf
        if not self.rails:
            return block
        first_port = np.searchsorted(port_host, port_host)
        return block * int(np.bincount(port_host).max()) + np.arange(len(port_host)) - first_port
