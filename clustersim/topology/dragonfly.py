"""Groups of fully connected routers, and a link between every two groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field

from clustersim.topology.fabric import Fabric
from clustersim.topology.network_spec import HostGroup, NetworkSpec
from clustersim.topology.routes import Routes
from clustersim.topology.wire import Cable, LinkName, wire

Number = TypeVar("Number", int, np.ndarray)


class DragonflyFabric(Fabric):
    """Group i reaches group j by its global link (j - i - 1) mod groups; links are spread evenly over its routers."""

    def __init__(self, groups: int, routers: int, port_switch: np.ndarray, access: Cable, local: Cable, global_: Cable):
        names = [f"router-{group}-{number}" for group in range(groups) for number in range(routers)]
        super().__init__(names, "router", port_switch, access)
        self._groups, self._routers = groups, routers
        self._globals_per_router = max(1, -(-(groups - 1) // routers))
        router, index = np.divmod(np.arange(groups * routers * (routers - 1)), max(1, routers - 1))
        other = (router % routers + 1 + index) % routers
        self._local = self.wires.add(router, router // routers * routers + other, local)
        group, offset = np.divmod(np.arange(groups * (groups - 1)), max(1, groups - 1))
        there = (group + 1 + offset) % groups
        self._global = self.wires.add(self._gateway(group, there), self._gateway(there, group), global_)

    def _gateway(self, group: Number, other: Number) -> Number:
        """Return the router of `group` with its link to `other`."""
        gateway: Number = group * self._routers + (other - group - 1) % self._groups // self._globals_per_router
        return gateway

    def route(self, src: int, dst: int, choice: int) -> list[int]:
        """Return the minimal route: to the router with the global link, over it, and to the last router."""
        here, there = src // self._routers, dst // self._routers
        if here == there:
            return self._hop(src, dst)
        link = self._global + here * (self._groups - 1) + (there - here - 1) % self._groups
        return [*self._hop(src, self._gateway(here, there)), link, *self._hop(self._gateway(there, here), dst)]

    def _hop(self, src: int, dst: int) -> list[int]:
        """Return the link between two routers of one group."""
        return [] if src == dst else [self._hop_link(src, dst)]

    def _hop_link(self, src: Number, dst: Number) -> Number:
        link: Number = self._local + src * (self._routers - 1) + (dst - src - 1) % self._routers
        return link

    def edge_routes(self, src: np.ndarray, dst: np.ndarray, choice: np.ndarray) -> Routes:
        here, there = src // self._routers, dst // self._routers
        away = here != there
        leave = np.where(away, self._gateway(here, there), dst)
        enter = np.where(away, self._gateway(there, here), dst)
        between = self._global + here * (self._groups - 1) + (there - here - 1) % self._groups
        links = np.stack([self._hop_link(src, leave), between, self._hop_link(enter, dst)], axis=1)
        return Routes.of_rows(links, np.stack([src != leave, away, enter != dst], axis=1))

    def hops(self, src: int) -> np.ndarray:
        router = np.arange(len(self.switch_names))
        here, there = src // self._routers, router // self._routers
        leave = self._gateway(np.full_like(there, here), there) != src
        enter = self._gateway(there, np.full_like(there, here)) != router
        hops: np.ndarray = np.where(there == here, (router != src).astype(np.int64), 1 + leave + enter)
        return hops


class Dragonfly(NetworkSpec):
    """Groups of fully connected routers with one link between every two groups (Kim, Dally, Scott and Abts, 2008).

    Routes are minimal: at most one link in the first group, one between the groups and one in the last.
    """

    kind: Literal["dragonfly"] = "dragonfly"
    groups: int = Field(ge=1, le=4096, description="groups of routers")
    routers: int = Field(ge=1, le=1024, description="routers in a group")
    hosts: Annotated[int, Field(ge=1)] | Annotated[list[HostGroup], Field(min_length=1)] = Field(
        description="hosts on each router, or hosts of several kinds, spread evenly: [{count: 4, host: dgx-1}, ...]"
    )
    link: LinkName = Field(description="link of hosts and within a group, each way: a link sheet's name, or a rate")
    global_link: LinkName | None = Field(default=None, description="link between two groups; by default as `link`")

    def host_groups(self) -> Sequence[HostGroup] | None:
        return None if isinstance(self.hosts, int) else self.hosts

    def max_hosts(self, ports_per_host: float) -> int:
        return self.groups * self.routers * self._hosts_per_router()

    def num_inner_links(self) -> int:
        return self.groups * self.routers * (self.routers - 1) + self.groups * (self.groups - 1)

    def _hosts_per_router(self) -> int:
        if isinstance(self.hosts, int):
            return self.hosts
        return -(-sum(group.count for group in self.hosts) // (self.groups * self.routers))

    def fabric(self, port_host: np.ndarray) -> Fabric:
        access, local = wire(self.link, "access", self.hop), wire(self.link, "local", self.hop)
        between = wire(self.global_link or self.link, "global", self.hop)
        return DragonflyFabric(self.groups, self.routers, port_host // self._hosts_per_router(), access, local, between)
