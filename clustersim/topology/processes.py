"""Processes of hosts that take in what others send them by one thread, which carries no more than so much."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clustersim.topology.routes import Routes
from clustersim.topology.topology import Links, Topology

LINK_KIND = "process"
"""What the links into processes are called in reports."""


@dataclass(frozen=True, eq=False)
class Processes:
    """The nodes of processes in a cluster: workers' `of_gpus` and `of_hosts` [num_gpus], and servers' by memory.

    A process of a host has a node at each memory of it; those of a host's GPUs are all one process.
    """

    of_gpus: np.ndarray
    of_hosts: np.ndarray
    servers: dict[int, int]


def with_processes(topology: Topology, bytes_per_s: float) -> Topology:
    """Return a cluster with nodes for processes: what one takes in crosses a link of that rate, from wherever it comes.

    There may be one for each GPU, one for each host, and one in each host memory, a server's: what is nobody's has
    no effect. From process to process a message goes as from the one's memory to the other's, also in one host; what a
    process sends itself crosses no such link, and neither do copies between GPUs and memories.
    """
    memory, hosts = topology.memory, topology.gpu_hosts
    owners = np.where(hosts >= 0, hosts, -1 - np.arange(topology.num_gpus))  # GPUs without a host are on their own
    pieces, of_hosts = np.unique(np.stack([owners, memory]), axis=1, return_inverse=True)
    memories = np.unique(memory)
    at = np.concatenate([memory, pieces[1], memories])
    host_number = topology.num_gpus + np.unique(pieces[0], return_inverse=True)[1]
    server_number = host_number.max(initial=topology.num_gpus - 1) + 1 + np.arange(len(memories))
    number = np.concatenate([np.arange(topology.num_gpus), host_number, server_number])
    first = len(topology.node_names)
    nodes = first + np.arange(len(at))
    starts = np.unique(number, return_index=True)[1]  # of each process, the first of its nodes
    receivers = len(topology.links) + np.arange(len(starts))
    router = _BetweenProcesses(topology, at, number, receivers)
    workers = topology.num_gpus + of_hosts.reshape(-1)
    return replace(
        topology,
        node_names=[*topology.node_names, *(f"process-{each}" for each in range(len(at)))],
        node_kinds=[*topology.node_kinds, *[LINK_KIND] * len(at)],
        node_hosts=np.concatenate([topology.node_hosts, topology.node_hosts[at]]),
        links=_more_links(topology.links, at[starts], nodes[starts], bytes_per_s),
        adders={
            **topology.adders,
            **{
                node: topology.adders[where]
                for node, where in zip(nodes.tolist(), at.tolist(), strict=True)
                if where in topology.adders
            },
        },
        router=router,
        processes=Processes(
            nodes[: topology.num_gpus], nodes[workers], dict(zip(memories.tolist(), nodes[-len(memories) :].tolist(), strict=True))
        ),
    )


def _more_links(links: Links, src: np.ndarray, dst: np.ndarray, bytes_per_s: float) -> Links:
    """Return links and those of a rate from `src` to `dst` [n], which take no time."""
    return Links(
        src=np.concatenate([links.src, src]),
        dst=np.concatenate([links.dst, dst]),
        bytes_per_s=np.concatenate([links.bytes_per_s, np.full(len(src), bytes_per_s)]),
        latency_s=np.concatenate([links.latency_s, np.zeros(len(src))]),
        kind=[*links.kind, *[LINK_KIND] * len(src)],
    )


class _BetweenProcesses:
    """Routes of a cluster, and to nodes of processes: those `at` memories [num_nodes], of the process `number`."""

    def __init__(self, topology: Topology, at: np.ndarray, number: np.ndarray, receivers: np.ndarray):
        self._topology = topology
        num_plain = len(topology.node_names)
        self._at = np.concatenate([np.arange(num_plain), at])
        self._number = np.concatenate([np.full(num_plain, -1), number])
        self._receivers = receivers

    def __call__(self, src: int, dst: int) -> list[int]:
        links: list[int] = self.routes(np.array([src]), np.array([dst])).links.tolist()
        return links

    def routes(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes of many pairs of nodes [n]."""
        start, end, receiver = self._at[src], self._at[dst], self._number[dst]
        apart, received = np.flatnonzero(start != end), np.flatnonzero((receiver >= 0) & (self._number[src] != receiver))
        ways = self._topology.routes(start[apart], end[apart]).spread(apart, len(src))
        into = Routes(np.arange(len(received) + 1), self._receivers[receiver[received]]).spread(received, len(src))
        return Routes.join(len(src), [ways, into])
