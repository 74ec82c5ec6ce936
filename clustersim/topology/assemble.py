"""Builds a `Topology` in columns from hosts and a fabric."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np

from clustersim.topology.fabric import Fabric
from clustersim.topology.fabric_router import FabricRouter
from clustersim.topology.host_plan import HostRange
from clustersim.topology.topology import Links, Topology


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
        node_kinds=[kind for hosts in ranges for kind in hosts.plan.kinds * hosts.num_copies]
        + [fabric.switch_kind] * len(fabric.switch_names),
        node_hosts=np.concatenate([*(part.node_hosts for part in parts), np.full(len(fabric.switch_names), -1)]),
        links=links,
        gpus=np.concatenate([part.gpus for part in parts]),
        gpu_sheets=[sheet for hosts in ranges for sheet in hosts.plan.gpu_sheets * hosts.num_copies],
        memory=np.concatenate([part.memory for part in parts]),
        adders={node: link for part in parts for node, link in part.adders},
        router=FabricRouter(ranges, fabric),
        torus_dims=fabric.torus_dims,
        host_sheets=[hosts.plan.cpu for hosts in ranges for _ in range(hosts.num_hosts)],
        domains=_domains(ranges, len(fabric.switch_names)),
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
    plan, count = hosts.plan, hosts.num_copies
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
        node_hosts=hosts.hosts_of_nodes(range(len(plan.names))).ravel(),
        gpus=nodes(plan.gpus),
        memory=nodes(plan.memory),
        ports=nodes(plan.ports),
        adders=zip(nodes(list(plan.adders)).tolist(), adder_links.tolist(), strict=True),
    )


def _domains(ranges: list[HostRange], num_switches: int) -> np.ndarray | None:
    """Return the first host of each node's NVLink domain [num_nodes], -1 for switches; None if no hosts are joined."""
    if all(hosts.plan.num_hosts == 1 for hosts in ranges):
        return None
    own = [np.repeat(hosts.first_hosts(), len(hosts.plan.names)) for hosts in ranges]
    return np.concatenate([*own, np.full(num_switches, -1)])


def _alternate(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    return np.stack([even, odd], axis=1).ravel()


class NodeNames(Sequence[str]):
    """Names of nodes, made on demand: `gpu7` in a bare host, `host3/gpu1` in others, then the switches.

    The NVSwitch of joined hosts is `host0-17/nvswitch0`.
    """

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
        first, name = hosts.host + copy * hosts.plan.num_hosts, hosts.plan.names[local]
        (own,) = hosts.plan.hosts_of([local]).tolist()
        return f"host{first}-{first + hosts.plan.num_hosts - 1}/{name}" if own < 0 else f"host{first + own}/{name}"
