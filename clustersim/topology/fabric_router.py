"""Routes of a cluster of hosts on a fabric, one at a time or many at once."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from clustersim.topology.fabric import Fabric
from clustersim.topology.flow_hash import flow_hash, flow_hashes
from clustersim.topology.host_plan import HostRange
from clustersim.topology.routes import Routes


class _Places(NamedTuple):
    """Locations of nodes in columns [n]: the copy within a range of hosts, or the switch (`hosts` is -1)."""

    hosts: np.ndarray
    copy: np.ndarray
    local: np.ndarray

    def take(self, rows: np.ndarray) -> _Places:
        return _Places(*(column[rows] for column in self))


class _Place(NamedTuple):
    """Location of a node: the copy within a range of hosts, or the switch (`hosts` is None)."""

    hosts: HostRange | None
    copy: int
    local: int


class FabricRouter:
    """Routes between any two nodes: out of the host, through the fabric, into the other host.

    A route between two GPUs of a host stays in the host. A hash of the two nodes selects among equal-cost routes, so
    the choice is the same in every process; real networks hash the flow's addresses in the same way.
    """

    def __init__(self, ranges: list[HostRange], fabric: Fabric):
        self.ranges = ranges
        self.fabric = fabric
        self._starts = [hosts.node for hosts in ranges]
        self._first_switch = ranges[-1].next_node
        self._first_access = ranges[-1].link + ranges[-1].num_copies * len(ranges[-1].plan.src)
        self._first_wire = self._first_access + 2 * len(fabric.port_switch)
        self._port_switch = fabric.port_switch.tolist()
        self._starts_column = np.array(self._starts, dtype=np.int64)
        self._num_nodes = np.array([len(hosts.plan.names) for hosts in ranges], dtype=np.int64)

    def __call__(self, src: int, dst: int) -> list[int]:
        start, end = self._place(src), self._place(dst)
        if start.hosts is not None and start.hosts is end.hosts and start.copy == end.copy:
            inside = start.hosts.plan.route_inside(start.local, end.local)
            if inside is not None:
                return _shift(inside, start.hosts.link + start.copy * len(start.hosts.plan.src))
        choice = flow_hash(src, dst)
        first, up = self._leave(start, choice)
        last, down = self._enter(end, choice)
        return up + _shift(self.fabric.route(first, last, choice), self._first_wire) + down

    def routes(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes of many pairs of nodes [n]."""
        num_pairs = len(src)
        starts, ends = self._places(src), self._places(dst)
        same_host = (starts.hosts == ends.hosts) & (starts.hosts >= 0) & (starts.copy == ends.copy) & (src != dst)
        inside, stays = self._inside(starts, ends, same_host)
        pairs = np.flatnonzero((src != dst) & ~stays)
        return Routes.join(num_pairs, [inside, self.outside(src[pairs], dst[pairs]).spread(pairs, num_pairs)])

    def outside(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes of pairs of nodes [n] through the fabric, also for two nodes of one host."""
        choice = flow_hashes(src, dst)
        first, up = self._host_routes(self._places(src), choice, out=True)
        last, down = self._host_routes(self._places(dst), choice, out=False)
        between = self.fabric.routes(first, last, choice)
        return Routes.join(len(src), [up, between._replace(links=between.links + self._first_wire), down])

    def _places(self, nodes: np.ndarray) -> _Places:
        hosts = np.searchsorted(self._starts, nodes, side="right") - 1
        copy, local = np.divmod(nodes - self._starts_column[hosts], self._num_nodes[hosts])
        is_switch = nodes >= self._first_switch
        return _Places(
            np.where(is_switch, -1, hosts),
            np.where(is_switch, 0, copy),
            np.where(is_switch, nodes - self._first_switch, local),
        )

    def _inside(self, starts: _Places, ends: _Places, same_host: np.ndarray) -> tuple[Routes, np.ndarray]:
        """Return the routes within hosts of the pairs `same_host` [n] that have one, and which pairs these are."""
        stays = np.zeros(len(same_host), dtype=bool)
        parts = []
        for number, hosts in enumerate(self.ranges):
            rows = np.flatnonzero(same_host & (starts.hosts == number))
            if not len(rows):
                continue
            size = len(hosts.plan.names)
            keys, which = _distinct(starts.local[rows] * size + ends.local[rows], size * size)
            paths = [hosts.plan.route_inside(*divmod(key, size)) for key in keys.tolist()]
            routes = Routes.one_by_one([path or [] for path in paths]).take(which)
            parts.append(routes.shifted(_first_links(hosts, starts.copy[rows])).spread(rows, len(same_host)))
            stays[rows] = np.array([path is not None for path in paths])[which]
        return Routes.join(len(same_host), parts), stays

    def _host_routes(self, places: _Places, choice: np.ndarray, *, out: bool) -> tuple[np.ndarray, Routes]:
        """Return the switch [n] at which each node's messages leave (or enter) its host, and the links between."""
        switch = places.local.copy()
        parts = []
        for number, hosts in enumerate(self.ranges):
            rows = np.flatnonzero(places.hosts == number)
            if not len(rows):
                continue
            port, inside = _routes_of_hosts(hosts, places.take(rows), choice[rows], out=out)
            switch[rows] = self.fabric.port_switch[port]
            access = Routes(np.arange(len(rows) + 1), self._first_access + 2 * port + (not out))
            route = [inside, access] if out else [access, inside]
            parts.append(Routes.join(len(rows), route).spread(rows, len(switch)))
        return switch, Routes.join(len(switch), parts)

    def _place(self, node: int) -> _Place:
        if node >= self._first_switch:
            return _Place(None, 0, node - self._first_switch)
        hosts = self.ranges[bisect_right(self._starts, node) - 1]
        copy, local = divmod(node - hosts.node, len(hosts.plan.names))
        return _Place(hosts, copy, local)

    def _leave(self, place: _Place, choice: int) -> tuple[int, list[int]]:
        """Return the first switch and the links to it."""
        if place.hosts is None:
            return place.local, []
        plan = place.hosts.plan
        port, links = plan.route_out(place.local, choice >> 32)
        port += place.hosts.port + place.copy * len(plan.ports)
        return self._port_switch[port], [
            *_shift(links, place.hosts.link + place.copy * len(plan.src)),
            self._first_access + 2 * port,
        ]

    def _enter(self, place: _Place, choice: int) -> tuple[int, list[int]]:
        """Return the last switch and the links from it."""
        if place.hosts is None:
            return place.local, []
        plan = place.hosts.plan
        port, links = plan.route_in(place.local, choice >> 32)
        port += place.hosts.port + place.copy * len(plan.ports)
        return self._port_switch[port], [
            self._first_access + 2 * port + 1,
            *_shift(links, place.hosts.link + place.copy * len(plan.src)),
        ]


def _routes_of_hosts(hosts: HostRange, places: _Places, choice: np.ndarray, *, out: bool) -> tuple[np.ndarray, Routes]:
    """Return the port [n] by which each node's messages leave (or enter) its host, and the links within to it."""
    plan = hosts.plan
    nodes, which = _distinct(places.local, len(plan.names))
    num_exits = np.array([plan.num_exits(node) for node in nodes.tolist()], dtype=np.int64)
    index = ((choice >> np.uint64(32)) % num_exits[which].astype(np.uint64)).astype(np.int64)
    most = int(num_exits.max())
    keys, which = _distinct(places.local * most + index, len(plan.names) * most)
    route = plan.route_out if out else plan.route_in
    ports, links = zip(*(route(*divmod(key, most)) for key in keys.tolist()), strict=True)
    inside = Routes.one_by_one(links).take(which).shifted(_first_links(hosts, places.copy))
    return hosts.port + places.copy * len(plan.ports) + np.array(ports)[which], inside


def _first_links(hosts: HostRange, copy: np.ndarray) -> np.ndarray:
    """Return the number of the first link of each of these copies of a host."""
    first: np.ndarray = hosts.link + copy * len(hosts.plan.src)
    return first


def _distinct(keys: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys in increasing order, and the index of each key among them; keys are below `limit`."""
    found = np.bincount(keys, minlength=limit) > 0
    return np.flatnonzero(found), (np.cumsum(found) - 1)[keys]


def _shift(links: list[int], start: int) -> list[int]:
    return [start + link for link in links]
