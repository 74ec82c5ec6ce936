"""Processes of hosts whose threads that receive, and those that send, carry no more than so much each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from clustersim.topology.routes import Routes
from clustersim.topology.topology import Links, Topology

KIND = "process"
"""The kind of processes' nodes, and how their links' kinds begin."""


@dataclass(frozen=True, eq=False)
class Processes:
    """The nodes of processes in a cluster: workers' `of_gpus` and `of_hosts` [num_gpus], and servers' by memory.

    A process of a host has a node at each memory of it; those of a host's GPUs are all one process. `receiving` has
    the nodes of the threads that receive, where what such a thread carries depends on a message's size.
    """

    of_gpus: np.ndarray
    of_hosts: np.ndarray
    servers: dict[int, int]
    receiving: Receiving | None = None


@dataclass(frozen=True)
class Threads:
    """How many threads each process has that receive, and as many that send, and what each carries.

    A thread takes in b bytes in one message in (b + b^2 / `half_rate_bytes`) / `into_bytes_per_s` seconds, so that a
    message of that size comes in at half the rate; None where all come in at the same rate.
    """

    num: int
    into_bytes_per_s: float
    from_bytes_per_s: float
    half_rate_bytes: float | None = None


@dataclass(frozen=True, eq=False)
class Receiving:
    """Nodes of the threads that receive: what one of them sends its process crosses the thread's link and no other.

    `number` [num_nodes] is the process of each node, -1 where it is none, and `turn` [num_processes] says which of a
    process' `num_threads` threads is that of each other process. Thread t of process p is node `first` + `num_threads`
    p + t.
    """

    first: int
    num_threads: int
    number: np.ndarray
    turn: np.ndarray
    half_rate_bytes: float

    def nodes(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Return the threads that take in messages from nodes `src` [n] at `dst` [n]; -1 where none does."""
        sender, receiver = self.number[src], self.number[dst]
        nodes = self.first + receiver * self.num_threads + np.where(sender < 0, 0, self.turn[sender])
        return np.where((receiver < 0) | (sender == receiver), -1, nodes)


@lru_cache(maxsize=4)
def with_processes(topology: Topology, threads: Threads) -> Topology:
    """Return a cluster with nodes for processes: what one takes in crosses a link, that of a thread, of a rate.

    So does what it sends, on links of their own. What goes between two processes is always one thread's, and the others
    of a process are dealt out to its threads in turn. There may be a process for each GPU, one for
    each host, and one in each host memory, a server's: what is nobody's has no effect. From process to process, also in
    one host, a message goes as from the one's memory to the other's; copies between GPUs and memories go by no process.
    The latest are kept, so that what is found out about them serves all who ask for the same.
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
    turns = np.concatenate([own, np.arange(len(np.unique(host))), _turns(topology.node_hosts[memories])]) % threads.num
    servers = dict(zip(memories.tolist(), nodes[-len(memories) :].tolist(), strict=True))
    made = replace(
        topology,
        node_names=[*topology.node_names, *(f"process-{each}" for each in range(len(at)))],
        node_kinds=[*topology.node_kinds, *[KIND] * len(at)],
        node_hosts=np.concatenate([topology.node_hosts, topology.node_hosts[at]]),
        links=_more_links(topology.links, at, nodes, number, threads),
        adders={**topology.adders, **adders},
        router=_BetweenProcesses(topology, at, number, turns, threads.num),
        processes=Processes(nodes[own], nodes[topology.num_gpus + of_hosts.reshape(-1)], servers),
    )
    return made if threads.half_rate_bytes is None else _with_receiving(made, number, turns, threads)


def _with_receiving(topology: Topology, number: np.ndarray, turn: np.ndarray, threads: Threads) -> Topology:
    """Return a cluster whose processes, `number` [num_process_nodes], have nodes for their threads that receive."""
    assert topology.processes is not None
    assert threads.half_rate_bytes is not None
    num_plain = len(topology.node_names) - len(number)
    first_node = num_plain + np.repeat(np.unique(number, return_index=True)[1], threads.num)
    of_nodes = np.concatenate([np.full(num_plain, -1), number, np.full(len(first_node), -1)])
    first = len(topology.node_names)
    receiving = Receiving(first, threads.num, of_nodes, turn, threads.half_rate_bytes)
    return replace(
        topology,
        node_names=[*topology.node_names, *(f"{KIND}-thread-{each}" for each in range(len(first_node)))],
        node_kinds=[*topology.node_kinds, *[f"{KIND}-thread"] * len(first_node)],
        node_hosts=np.concatenate([topology.node_hosts, topology.node_hosts[first_node]]),
        processes=replace(topology.processes, receiving=receiving),
    )


def _turns(hosts: np.ndarray) -> np.ndarray:
    """Return the turn of each memory [n], of these hosts: the first of every host, then their second ones.

    >>> _turns(np.array([0, 0, 1, 1, 2])).tolist()
    [0, 3, 1, 4, 2]
    """
    place = np.array([np.count_nonzero(hosts[:number] == host) for number, host in enumerate(hosts)])
    turns = np.empty(len(hosts), dtype=np.int64)
    turns[np.argsort(place, kind="stable")] = np.arange(len(hosts))
    return turns


def _more_links(links: Links, at: np.ndarray, nodes: np.ndarray, number: np.ndarray, threads: Threads) -> Links:
    """Return links and, for each process, those into the first of its nodes and out of it, which take no time."""
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


class _BetweenProcesses:
    """Routes of a cluster, and between nodes of processes.

    `at` has the nodes' memories, `number` their process, and `thread` [num_processes] which of a process' threads is
    that of each other process.
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
        """Return the routes of many pairs of nodes [n]; from a thread that receives, to a node of its process."""
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
        """Return for each pair [n] that `differ` the link of the thread of a process, if it is one, for the other."""
        pairs = np.flatnonzero(differ & (process >= 0))
        links = first + process[pairs] * self._num_threads + np.where(other[pairs] < 0, 0, self._thread[other[pairs]])
        return Routes(np.arange(len(pairs) + 1), links).spread(pairs, len(differ))
