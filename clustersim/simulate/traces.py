"""Simulates graphs of ranks on a cluster: traces of another tool, or exported programs of clustersim."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy

from clustersim.communicator.algorithm import schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.pauses import pauses_s
from clustersim.devices import GpuDevice
from clustersim.errors import SimulationError
from clustersim.hardware import load_transport
from clustersim.hardware.sheet import Transport
from clustersim.network import Collective, Environment, Network
from clustersim.program.graph import COLLECTIVE, COMPUTE, RECEIVE, SEND, TaskNode, in_order
from clustersim.simulate.build import build_network
from clustersim.topology import Node as Place
from clustersim.topology import Topology, load_topology, place
from clustersim.topology.placement import Block

PLAY_SCHEMA = "clustersim.play/1"

Process = Generator[simpy.Event, Any, None]
_Interval = tuple[float, float]


def simulate_traces(
    graphs: Sequence[Sequence[TaskNode]],
    topology: str | Topology | Mapping[str, Any],
    transport: str = "ideal",
    exact: bool = False,
    on_progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Simulate the graph of each rank on the first GPUs of a cluster; return a `clustersim.play/1` document.

    A GPU computes one node at a time: of the nodes that may begin, the first one in its graph. A send starts at once,
    and its receiver waits for it. The collectives of a group run one after another. For each rank, and for their mean,
    `compute_s` is the time in which it computes, `exposed_s` the time in which it does not compute and its messages
    are in flight, and `waiting_s` the rest of `end_s`.
    """
    cluster = load_topology(dict(topology) if isinstance(topology, Mapping) else topology)
    gpus = place(Block(), cluster, len(graphs), seed=0)
    library = load_transport(transport)
    network = build_network(Environment(), cluster, library, exact)
    shared = _SharedState(network, gpus, library, on_progress)
    ranks = [_Rank(shared, rank, graph) for rank, graph in enumerate(graphs)]
    shared.num_left = sum(map(len, graphs))
    for each in ranks:
        each.begin()
    network.env.run()
    if shared.num_left:
        waiting = ", ".join(str(each.rank) for each in ranks if each.num_left)
        raise SimulationError(f"deadlock at {network.env.now} s: these ranks wait for each other: {waiting}")
    rows = [each.row() for each in ranks]
    return {
        "schema": PLAY_SCHEMA,
        "topology": cluster.name,
        "transport": transport,
        "num_ranks": len(graphs),
        "num_nodes": sum(map(len, graphs)),
        "end_s": max(row["end_s"] for row in rows),
        **{f"mean_{key}": float(np.mean([row[key] for row in rows])) for key in ("compute_s", "exposed_s")},
        "ranks": rows,
    }


class _Message:
    """A message: when it was sent, and the event of its arrival."""

    def __init__(self, env: simpy.Environment):
        self.arrived: simpy.Event = env.event()
        self.sent_s = float("inf")


class _GroupCollective:
    """A collective of a group: how many ranks have yet to enter it, and when the last one did."""

    def __init__(self, collective: Collective, num_missing: int):
        self.collective = collective
        self.num_missing = num_missing
        self.last_s = float("inf")


class _SharedState:
    """What ranks share: the network, the messages between them, and their collectives."""

    def __init__(self, network: Network, gpus: np.ndarray, library: Transport, on_progress: Callable[[float], None]):
        self.network, self.env, self.gpus, self.library = network, network.env, gpus, library
        self.num_left = 0
        self._num_done = 0
        self._on_progress = on_progress
        self._messages: dict[tuple[int, int, int, int], _Message] = {}
        self._collectives: dict[tuple[str, tuple[int, ...], int], _GroupCollective] = {}

    @property
    def is_staged(self) -> bool:
        return self.library.buffers == "host"

    def message(self, src: int, dst: int, tag: int, number: int) -> _Message:
        """Return message `number` from one rank to another with a tag."""
        return self._messages.setdefault((src, dst, tag, number), _Message(self.env))

    def collective(self, node: TaskNode, number: int) -> _GroupCollective:
        """Return collective `number` of a group and channel."""
        key = node.channel, node.group, number
        if key not in self._collectives:
            self._collectives[key] = _GroupCollective(self._begin(node), len(node.group))
        return self._collectives[key]

    def _begin(self, node: TaskNode) -> Collective:
        topology, gpus = self.network.topology, self.gpus[list(node.group)]
        _, schedule = schedule_collective(node.op, node.algorithm, topology, gpus, node.num_bytes, self.library.library)
        ends = topology.memory[gpus] if self.is_staged else topology.gpus[gpus]
        nodes: list[Hashable] = [Place(end) for end in ends.tolist()]
        delay_s = pauses_s(schedule, topology, gpus, self.library.library, node.op, node.algorithm)
        collective = self.network.begin(schedule, [*nodes, *extra_ranks(schedule, topology, gpus)], delay_s)
        others = range(len(gpus), schedule.num_ranks)
        if others:
            collective.enter_each(others, [float(self.env.now)] * len(others))
        return collective

    def done(self) -> None:
        """Count a node as done."""
        self.num_left -= 1
        self._num_done += 1
        self._on_progress(self._num_done / (self._num_done + self.num_left))


class _Rank:
    """One rank: its nodes that may begin, those that its GPU and its host thread compute, and its times."""

    def __init__(self, shared: _SharedState, rank: int, graph: Sequence[TaskNode]):
        self.rank = rank
        self.num_left = len(graph)
        self._shared, self._env = shared, shared.env
        self._gpu = GpuDevice(shared.env, shared.network, int(shared.gpus[rank]))
        self._nodes = in_order(graph)
        self._number = _numbers(self._nodes)
        self._followers: dict[int, list[TaskNode]] = defaultdict(list)
        self._num_open: dict[int, int] = {}
        self._may_compute: dict[bool, list[tuple[int, TaskNode]]] = {False: [], True: []}
        self._computes = {False: False, True: False}
        self._place = {node.number: place for place, node in enumerate(self._nodes)}
        self._busy: list[_Interval] = []
        self._moving: list[_Interval] = []
        self._end_s = 0.0

    def begin(self) -> None:
        """Start all nodes without dependencies."""
        last: dict[Hashable, int] = {}
        for node in self._nodes:
            before = {*node.data_deps, *node.order_deps}
            if node.kind == COLLECTIVE and len(node.group) > 1:
                channel = node.channel, frozenset(node.group)
                before |= {last[channel]} if channel in last else set()
                last[channel] = node.number
            for number in before:
                self._followers[number].append(node)
            self._num_open[node.number] = len(before)
        for node in [node for node in self._nodes if not self._num_open[node.number]]:
            self._start(node)

    def row(self) -> dict[str, float]:
        """Return the parts of the rank's time, as in `simulate_traces`."""
        compute_s = _length_s(self._busy)
        exposed_s = _length_s([*self._busy, *self._moving]) - compute_s
        waiting_s = max(0.0, self._end_s - compute_s - exposed_s)
        times = {"end_s": self._end_s, "compute_s": compute_s, "exposed_s": exposed_s, "waiting_s": waiting_s}
        return {"rank": self.rank, **times}

    def _start(self, node: TaskNode) -> None:
        if node.kind == COMPUTE:
            heappush(self._may_compute[node.on_host], (self._place[node.number], node))
            if not self._computes[node.on_host]:
                self._env.process(self._compute(node.on_host))
                self._computes[node.on_host] = True
        else:
            how = {SEND: self._send, RECEIVE: self._receive, COLLECTIVE: self._collective}.get(node.kind, self._nothing)
            self._env.process(how(node))

    def _done(self, node: TaskNode) -> None:
        self._end_s = float(self._env.now)
        self.num_left -= 1
        self._shared.done()
        for follower in self._followers.pop(node.number, ()):
            self._num_open[follower.number] -= 1
            if not self._num_open[follower.number]:
                self._start(follower)

    def _compute(self, on_host: bool) -> Process:
        """Compute the nodes that may begin, one after another."""
        while self._may_compute[on_host]:
            _, node = heappop(self._may_compute[on_host])
            start_s = float(self._env.now)
            yield self._env.timeout(node.seconds)
            self._busy.append((start_s, float(self._env.now)))
            self._done(node)
        self._computes[on_host] = False

    def _nothing(self, node: TaskNode) -> Process:
        yield self._env.timeout(0.0)
        self._done(node)

    def _send(self, node: TaskNode) -> Process:
        message = self._shared.message(self.rank, node.peer, node.tag, self._number[node.number])
        message.sent_s = start_s = float(self._env.now)
        network, peer = self._shared.network, int(self._shared.gpus[node.peer])
        if self._shared.is_staged:
            memory = network.topology.memory
            yield from self._gpu.copy_out(node.num_bytes)
            yield network.transfer(self._gpu.host_memory, Place(memory[peer]), node.num_bytes)
            yield network.transfer(Place(memory[peer]), peer, node.num_bytes)
        else:
            yield network.transfer(self._gpu.node, peer, node.num_bytes)
        message.arrived.succeed()
        self._moved(start_s)
        self._done(node)

    def _receive(self, node: TaskNode) -> Process:
        message = self._shared.message(node.peer, self.rank, node.tag, self._number[node.number])
        start_s = float(self._env.now)
        if message.arrived.processed:
            yield self._env.timeout(0.0)
        else:
            yield message.arrived
        self._moved(max(start_s, message.sent_s))
        self._done(node)

    def _collective(self, node: TaskNode) -> Process:
        if len(node.group) == 1:
            yield from self._nothing(node)
            return
        is_staged, start_s = self._shared.is_staged, float(self._env.now)
        if is_staged:
            yield from self._gpu.copy_out(node.num_bytes)
        joint = self._shared.collective(node, self._number[node.number])
        place = node.group.index(self.rank)
        joint.collective.enter(place)
        joint.num_missing -= 1
        if not joint.num_missing:
            joint.last_s = float(self._env.now)
        yield joint.collective.done(place)
        self._moved(max(start_s, joint.last_s))
        if is_staged:
            copied_s = float(self._env.now)
            yield from self._gpu.copy_in(node.num_bytes)
            self._moved(copied_s)
        self._done(node)

    def _moved(self, start_s: float) -> None:
        self._moving.append((start_s, float(self._env.now)))


def _numbers(nodes: Sequence[TaskNode]) -> dict[int, int]:
    """Return the number of each message among those with its peer and tag, and of each collective in its group."""
    seen: dict[Hashable, int] = defaultdict(int)
    numbers = {}
    for node in nodes:
        collective, message = (node.channel, node.group), (node.kind, node.peer, node.tag)
        key: Hashable = collective if node.kind == COLLECTIVE else message
        numbers[node.number] = seen[key]
        seen[key] += 1
    return numbers


def _length_s(intervals: Sequence[_Interval]) -> float:
    """Return the length of the union of some time intervals."""
    length_s, until_s = 0.0, 0.0
    for start_s, end_s in sorted(intervals):
        if end_s > until_s:
            length_s += end_s - max(start_s, until_s)
            until_s = end_s
    return length_s
