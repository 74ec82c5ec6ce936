"""Puts hosts and a fabric together into a `Topology`, in columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np

from clustersim.topology.fabric import Fabric
from clustersim.topology.flow_hash import flow_hash
from clustersim.topology.host_plan import HostPlan
from clustersim.topology.topology import Links, Topology


@dataclass(frozen=True)
class HostRange:
    """`num_hosts` copies of one host, and where their numbers start."""

    plan: HostPlan
    num_hosts: int
    host: int
    node: int
    link: int
    gpu: int
    port: int

    @property
    def next_node(self) -> int:
        return self.node + self.num_hosts * len(self.plan.names)


def number_hosts(groups: Sequence[tuple[HostPlan, int]]) -> list[HostRange]:
    """Number hosts, nodes, links, GPUs and ports of the groups, one group after another."""
    ranges: list[HostRange] = []
    host = node = link = gpu = port = 0
    for plan, count in groups:
        ranges.append(HostRange(plan, count, host, node, link, gpu, port))
        host += count
        node += count * len(plan.names)
        link += count * len(plan.src)
        gpu += count * len(plan.gpus)
        port += count * len(plan.ports)
    return ranges


def assemble(name: str, ranges: list[HostRange], fabric: Fabric) -> Topology:
    """Return the topology of these hosts on this fabric.

    Node numbers: the hosts' nodes, host by host, then the switches. Link numbers: the hosts' own links,
    then port p up at 2 p and down at 2 p + 1, then the links between switches.
    """
    first_switch = ranges[-1].next_node
    parts = [host_columns(hosts) for hosts in ranges]
    ports = np.concatenate([part.ports for part in parts])
    switches = first_switch + fabric.port_switch
    num_ports = len(ports)
    links = Links(
        src=np.concatenate(
            [*(part.src for part in parts), _alternate(ports, switches), first_switch + fabric.wires.src]
        ),
        dst=np.concatenate(
            [*(part.dst for part in parts), _alternate(switches, ports), first_switch + fabric.wires.dst]
        ),
        bytes_per_s=np.concatenate(
            [
                *(part.bytes_per_s for part in parts),
                np.full(2 * num_ports, fabric.access.bytes_per_s),
                fabric.wires.bytes_per_s,
            ]
        ),
        latency_s=np.concatenate(
            [
                *(part.latency_s for part in parts),
                np.full(2 * num_ports, fabric.access.latency_s),
                fabric.wires.latency_s,
            ]
        ),
        kind=[kind for part in parts for kind in part.link_kinds]
        + [fabric.access.kind] * (2 * num_ports)
        + fabric.wires.kind,
    )
    return Topology(
        name=name,
        node_names=NodeNames(ranges, fabric.switch_names),
        node_kinds=[kind for hosts in ranges for kind in hosts.plan.kinds * hosts.num_hosts]
        + [fabric.switch_kind] * len(fabric.switch_names),
        node_hosts=np.concatenate([*(part.node_hosts for part in parts), np.full(len(fabric.switch_names), -1)]),
        links=links,
        gpus=np.concatenate([part.gpus for part in parts]),
        gpu_sheets=[sheet for hosts in ranges for sheet in hosts.plan.gpu_sheets * hosts.num_hosts],
        memory=np.concatenate([part.memory for part in parts]),
        adders={node: link for part in parts for node, link in part.adders},
        router=FabricRouter(ranges, fabric),
        torus_dims=fabric.torus_dims,
        host_sheets=[hosts.plan.cpu for hosts in ranges for _ in range(hosts.num_hosts)],
    )


class HostColumns(NamedTuple):
    """The nodes and links of a range of hosts, in columns; `adders` are pairs of a memory's node and its link."""

    src: np.ndarray
    dst: np.ndarray
    bytes_per_s: np.ndarray
    latency_s: np.ndarray
    link_kinds: list[str]
    node_hosts: np.ndarray
    gpus: np.ndarray
    memory: np.ndarray
    ports: np.ndarray
    adders: Iterator[tuple[int, int]]


def host_columns(hosts: HostRange) -> HostColumns:
    """Return the nodes and links of a range of hosts, with the cluster's numbers."""
    plan, count = hosts.plan, hosts.num_hosts
    node_starts = hosts.node + len(plan.names) * np.arange(count)[:, None]
    link_starts = hosts.link + len(plan.src) * np.arange(count)[:, None]

    def nodes(local: Sequence[int]) -> np.ndarray:
        return (node_starts + np.array(local, dtype=np.int64)).ravel()

    adder_links = (link_starts + np.array(list(plan.adders.values()), dtype=np.int64)).ravel()
    return HostColumns(
        src=nodes(plan.src),
        dst=nodes(plan.dst),
        bytes_per_s=np.tile([wire.bytes_per_s for wire in plan.wires], count),
        latency_s=np.tile([wire.latency_s for wire in plan.wires], count),
        link_kinds=[wire.kind for wire in plan.wires] * count,
        node_hosts=np.repeat(hosts.host + np.arange(count), len(plan.names)),
        gpus=nodes(plan.gpus),
        memory=nodes(plan.memory),
        ports=nodes(plan.ports),
        adders=zip(nodes(list(plan.adders)).tolist(), adder_links.tolist(), strict=True),
    )


def _alternate(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    return np.stack([even, odd], axis=1).ravel()


class NodeNames(Sequence[str]):
    """Names of nodes, made when asked for: `gpu7` in a bare host, `host3/gpu1` in others, then the switches."""

    def __init__(self, ranges: list[HostRange], switch_names: list[str]):
        self._ranges = ranges
        self._starts = [hosts.node for hosts in ranges]
        self._first_switch = ranges[-1].next_node
        self._switch_names = switch_names

    def __len__(self) -> int:
        return self._first_switch + len(self._switch_names)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._name(number) for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no node {index}")
        return self._name(int(index) % len(self))

    def _name(self, number: int) -> str:
        if number >= self._first_switch:
            return self._switch_names[number - self._first_switch]
        hosts = self._ranges[bisect_right(self._starts, number) - 1]
        copy, local = divmod(number - hosts.node, len(hosts.plan.names))
        if hosts.plan.bare:
            return f"gpu{hosts.gpu + copy * len(hosts.plan.gpus) + local}"
        return f"host{hosts.host + copy}/{hosts.plan.names[local]}"


class _Place(NamedTuple):
    """Where a node is: in which copy of which host, or at which switch (`hosts` is None)."""

    hosts: HostRange | None
    copy: int
    local: int


class FabricRouter:
    """Routes between any two nodes: out of the host, through the fabric, into the other host.

    A route inside a host stays there. Which of several equally good ways a pair takes is a hash of the two
    nodes, so it is the same in every process; real networks hash the flow's addresses alike.
    """

    def __init__(self, ranges: list[HostRange], fabric: Fabric):
        self.ranges = ranges
        self.fabric = fabric
        self._starts = [hosts.node for hosts in ranges]
        self._first_switch = ranges[-1].next_node
        self._first_access = ranges[-1].link + ranges[-1].num_hosts * len(ranges[-1].plan.src)
        self._first_wire = self._first_access + 2 * len(fabric.port_switch)
        self._port_switch = fabric.port_switch.tolist()

    def __call__(self, src: int, dst: int) -> list[int]:
        start, end = self._place(src), self._place(dst)
        if start.hosts is not None and start.hosts is end.hosts and start.copy == end.copy:
            inside = start.hosts.plan.path(start.local, end.local)
            if inside is not None:
                return _shift(inside, start.hosts.link + start.copy * len(start.hosts.plan.src))
        choice = flow_hash(src, dst)
        first, up = self._leave(start, choice)
        last, down = self._enter(end, choice)
        return up + _shift(self.fabric.route(first, last, choice), self._first_wire) + down

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
        port, links = plan.way_out(place.local, choice >> 32)
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
        port, links = plan.way_in(place.local, choice >> 32)
        port += place.hosts.port + place.copy * len(plan.ports)
        return self._port_switch[port], [
            self._first_access + 2 * port + 1,
            *_shift(links, place.hosts.link + place.copy * len(plan.src)),
        ]


def _shift(links: list[int], start: int) -> list[int]:
    return [start + link for link in links]
