"""Processes of hosts whose receiving and sending threads each have a limited rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from clustersim.topology.routes import Routes
from clustersim.topology.topology import Links, Topology

KIND = "process"
"""The kind of processes' nodes, and the prefix of their links' kinds."""


@dataclass(frozen=True, eq=False)
class Processes:
    """The nodes of processes in a cluster: workers' `of_gpus` and `of_hosts` [num_gpus], and servers' by memory.

    A process of a host has a node at each of the host's memories; the nodes of a host's GPUs belong to one process.
    `receiving` has the nodes of the receiving threads, if their time depends on a message's size.
    """

    of_gpus: np.ndarray
    of_hosts: np.ndarray
    servers: dict[int, int]
    receiving: Receiving | None = None


@dataclass(frozen=True)
class Threads:
    """Number of receiving threads of each process, with as many sending ones, and the rate of each.

    A thread receives a message of b bytes in (b + b^2 / `half_rate_bytes`) / `into_bytes_per_s` seconds, so a message
    of that size is received at half the rate; None if all are received at the same rate.
    """

    num: int
    into_bytes_per_s: float
    from_bytes_per_s: float
    half_rate_bytes: float | None = None


@dataclass(frozen=True, eq=False)
class Receiving:
    """Nodes of the receiving threads: what one of them sends its process crosses the thread's link and no other.

    `number` [num_nodes] is the process of each node, -1 if it has none, and `thread` [num_processes] is the index of
    the thread, of the `num_threads` of a process, that serves each other process. Thread t of process p is node `first`
    + `num_threads` p + t.
    """

    first: int
    num_threads: int
    number: np.ndarray
    thread: np.ndarray
    half_rate_bytes: float

    def nodes(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Return the threads that receive messages from nodes `src` [n] at `dst` [n]; -1 if there is none."""
        sender, receiver = self.number[src], self.number[dst]
        nodes = self.first + receiver * self.num_threads + np.where(sender < 0, 0, self.thread[sender])
        return np.where((receiver < 0) | (sender == receiver), -1, nodes)


@lru_cache(maxsize=4)
def with_processes(topology: Topology, threads: Threads) -> Topology:
    """Return a cluster with nodes for processes: what a process receives crosses the link of a thread, with its rate.

    So does what it sends, on separate links. One thread carries all messages between two processes, and the other
    processes are assigned to a process' threads in turn. There may be a process for each GPU, one for each host, and
    one in each host memory for a server; unused ones have no effect. From process to process, also within one host, a
    message goes as from the one's memory to the other's; copies between GPUs and memories use no process. The latest
    results are cached, together with what is cached for these clusters.
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
    threads_of = (
        np.concatenate([own, np.arange(len(np.unique(host))), _thread_order(topology.node_hosts[memories])])
        % threads.num
    )
    servers = dict(zip(memories.tolist(), nodes[-len(memories) :].tolist(), strict=True))
    made = replace(
        topology,
        node_names=[*topology.node_names, *(f"process-{each}" for each in range(len(at)))],
        node_kinds=[*topology.node_kinds, *[KIND] * len(at)],
        node_hosts=np.concatenate([topology.node_hosts, topology.node_hosts[at]]),
        domains=_with_domains(topology, at),
        links=_with_thread_links(topology.links, at, nodes, number, threads),
        adders={**topology.adders, **adders},
        router=_ProcessRouter(topology, at, number, threads_of, threads.num),
        processes=Processes(nodes[own], nodes[topology.num_gpus + of_hosts.reshape(-1)], servers),
    )
    return made if threads.half_rate_bytes is None else _with_receiving(made, number, threads_of, threads)


def _with_receiving(topology: Topology, number: np.ndarray, thread: np.ndarray, threads: Threads) -> Topology:
    """Return a cluster whose processes, `number` [num_process_nodes], have nodes for their receiving threads."""
    assert topology.processes is not None
    assert threads.half_rate_bytes is not None
    num_plain = len(topology.node_names) - len(number)
    first_node = num_plain + np.repeat(np.unique(number, return_index=True)[1], threads.num)
    of_nodes = np.concatenate([np.full(num_plain, -1), number, np.full(len(first_node), -1)])
    first = len(topology.node_names)
    receiving = Receiving(first, threads.num, of_nodes, thread, threads.half_rate_bytes)
    return replace(
        topology,
        node_names=[*topology.node_names, *(f"{KIND}-thread-{each}" for each in range(len(first_node)))],
        node_kinds=[*topology.node_kinds, *[f"{KIND}-thread"] * len(first_node)],
        node_hosts=np.concatenate([topology.node_hosts, topology.node_hosts[first_node]]),
        domains=_with_domains(topology, first_node),
        processes=replace(topology.processes, receiving=receiving),
    )


def _with_domains(topology: Topology, at: np.ndarray) -> np.ndarray | None:
    """Return the NVLink domains of the nodes, and of new ones at nodes `at` [n]; None if no hosts are joined."""
    return None if topology.domains is None else np.concatenate([topology.domains, topology.domains[at]])


def _thread_order(hosts: np.ndarray) -> np.ndarray:
    """Return the order of the memories [n] of these hosts: the first one of every host, then their second ones.

    >>> _thread_order(np.array([0, 0, 1, 1, 2])).tolist()
    [0, 3, 1, 4, 2]
    """
    place = np.array([np.count_nonzero(hosts[:number] == host) for number, host in enumerate(hosts)])
    threads_of = np.empty(len(hosts), dtype=np.int64)
    threads_of[np.argsort(place, kind="stable")] = np.arange(len(hosts))
    return threads_of


def _with_thread_links(links: Links, at: np.ndarray, nodes: np.ndarray, number: np.ndarray, threads: Threads) -> Links:
    """Return the links and, for each process, those into its first node and out of it, which have no delay."""
    first = np.repeat(np.unique(number, return_index=True)[1], threads.num)
    outside, inside = at[first], nodes[first]
    rates = [threads.into_bytes_per_s, threads.from_bytes_per_s]
    return Links(
        src=np.concatenate([links.src, outside, inside]),
        dst=np.concatenate([links.dst, inside, outside]),
        bytes_per_s=np.concatenate([links.bytes_per_s, np.repeat(rates, len(first))]),
        latency_s=np.concatenate([links.latency_s, np.zeros(2 * len(first))]),
        kind=[*links.kind, *[f"{KIND}-in"] * len(first), *[f"{KIND}-out"] * len(first)],
    )


class _ProcessRouter:
    """Routes of a cluster, and between nodes of processes.

    `at` are the nodes' memories, `number` their processes, and `thread` [num_processes] is the index of the thread that
    serves each other process.
    """

    def __init__(self, topology: Topology, at: np.ndarray, number: np.ndarray, thread: np.ndarray, num_threads: int):
        self._topology, self._thread, self._num_threads = topology, thread, num_threads
        num_plain = len(topology.node_names)
        self._at = np.concatenate([np.arange(num_plain), at])
        self._number = np.concatenate([np.full(num_plain, -1), number])
        self._first_thread = num_plain + len(at)
        self._first_into = len(topology.links)
        self._first_from = self._first_into + num_threads * (number.max() + 1)

    def __call__(self, src: int, dst: int) -> list[int]:
        links: list[int] = self.routes(np.array([src]), np.array([dst])).links.tolist()
        return links

    def routes(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes of many pairs of nodes [n]; from a receiving thread, to a node of its process."""
        own = np.flatnonzero(src >= self._first_thread)
        if len(own):
            within = Routes(np.arange(len(own) + 1), self._first_into + src[own] - self._first_thread)
            if len(own) == len(src):
                return within
            others = np.flatnonzero(src < self._first_thread)
            between = self.routes(src[others], dst[others]).spread(others, len(src))
            return Routes.join(len(src), [within.spread(own, len(src)), between])
        start, end, sender, receiver = self._at[src], self._at[dst], self._number[src], self._number[dst]
        apart, differ = np.flatnonzero(start != end), sender != receiver
        ways = self._topology.routes(start[apart], end[apart]).spread(apart, len(src))
        from_, into = (sender, receiver, self._first_from), (receiver, sender, self._first_into)
        return Routes.join(len(src), [self._threads(differ, *from_), ways, self._threads(differ, *into)])

    def _threads(self, differ: np.ndarray, process: np.ndarray, other: np.ndarray, first: int) -> Routes:
        """Return for each pair [n] that `differ` the link of a process' thread, if it is one, for the other process."""
        pairs = np.flatnonzero(differ & (process >= 0))
        links = first + process[pairs] * self._num_threads + np.where(other[pairs] < 0, 0, self._thread[other[pairs]])
        return Routes(np.arange(len(pairs) + 1), links).spread(pairs, len(differ))
