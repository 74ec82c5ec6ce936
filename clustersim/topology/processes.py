"""Processes of hosts with one thread that receives and one that sends, which carry no more than so much."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clustersim.topology.routes import Routes
from clustersim.topology.topology import Links, Topology

KIND = "process"
"""The kind of processes' nodes, and how their links' kinds begin."""


@dataclass(frozen=True, eq=False)
class Processes:
    """The nodes of processes in a cluster: workers' `of_gpus` and `of_hosts` [num_gpus], and servers' by memory.

    A process of a host has a node at each memory of it; those of a host's GPUs are all one process.
    """

    of_gpus: np.ndarray
    of_hosts: np.ndarray
    servers: dict[int, int]


def with_processes(topology: Topology, into_bytes_per_s: float, from_bytes_per_s: float) -> Topology:
    """Return a cluster with nodes for processes: what one takes in, from wherever it comes, crosses a link of a rate.

    So does what it sends, on a link of its own. There may be a process for each GPU, one for each host, and one in each
    host memory, a server's: what is nobody's has no effect. From process to process a message goes as from the one's
    memory to the other's, also in one host; copies between GPUs and memories go by no process.
    """
    memory, hosts = topology.memory, topology.gpu_hosts
    owners = np.where(hosts >= 0, hosts, -1 - np.arange(topology.num_gpus))  # GPUs without a host are on their own
    pieces, of_hosts = np.unique(np.stack([owners, memory]), axis=1, return_inverse=True)
    memories = np.unique(memory)
    own, host = np.arange(topology.num_gpus), topology.num_gpus + np.unique(pieces[0], return_inverse=True)[1]
    at = np.concatenate([memory, pieces[1], memories])
    number = np.concatenate([own, host, host.max() + 1 + np.arange(len(memories))])
    nodes = len(topology.node_names) + np.arange(len(at))
    adders = {
        node: topology.adders[where]
        for node, where in zip(nodes.tolist(), at.tolist(), strict=True)
        if where in topology.adders
    }
    servers = dict(zip(memories.tolist(), nodes[-len(memories) :].tolist(), strict=True))
    return replace(
        topology,
        node_names=[*topology.node_names, *(f"process-{each}" for each in range(len(at)))],
        node_kinds=[*topology.node_kinds, *[KIND] * len(at)],
        node_hosts=np.concatenate([topology.node_hosts, topology.node_hosts[at]]),
        links=_more_links(topology.links, at, nodes, number, (into_bytes_per_s, from_bytes_per_s)),
        adders={**topology.adders, **adders},
        router=_BetweenProcesses(topology, at, number),
        processes=Processes(nodes[own], nodes[topology.num_gpus + of_hosts.reshape(-1)], servers),
    )


def _more_links(
    links: Links, at: np.ndarray, nodes: np.ndarray, number: np.ndarray, bytes_per_s: tuple[float, float]
) -> Links:
    """Return links and, for each process, one into the first of its nodes and one out of it, which take no time."""
    first = np.unique(number, return_index=True)[1]
    outside, inside = at[first], nodes[first]
    return Links(
        src=np.concatenate([links.src, outside, inside]),
        dst=np.concatenate([links.dst, inside, outside]),
        bytes_per_s=np.concatenate([links.bytes_per_s, np.repeat(bytes_per_s, len(first))]),
        latency_s=np.concatenate([links.latency_s, np.zeros(2 * len(first))]),
        kind=[*links.kind, *[f"{KIND}-in"] * len(first), *[f"{KIND}-out"] * len(first)],
    )


class _BetweenProcesses:
    """Routes of a cluster, and between nodes of processes: those `at` memories, of the processes `number` [num_nodes]."""

    def __init__(self, topology: Topology, at: np.ndarray, number: np.ndarray):
        self._topology = topology
        num_plain = len(topology.node_names)
        self._at = np.concatenate([np.arange(num_plain), at])
        self._number = np.concatenate([np.full(num_plain, -1), number])
        self._first_into = len(topology.links)
        self._first_from = self._first_into + number.max() + 1

    def __call__(self, src: int, dst: int) -> list[int]:
        links: list[int] = self.routes(np.array([src]), np.array([dst])).links.tolist()
        return links

    def routes(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes of many pairs of nodes [n]."""
        start, end, sender, receiver = self._at[src], self._at[dst], self._number[src], self._number[dst]
        apart, differ = np.flatnonzero(start != end), sender != receiver
        sent, received = np.flatnonzero(differ & (sender >= 0)), np.flatnonzero(differ & (receiver >= 0))
        parts = [
            Routes(np.arange(len(sent) + 1), self._first_from + sender[sent]).spread(sent, len(src)),
            self._topology.routes(start[apart], end[apart]).spread(apart, len(src)),
            Routes(np.arange(len(received) + 1), self._first_into + receiver[received]).spread(received, len(src)),
        ]
        return Routes.join(len(src), parts)
