"""Minimum times of the messages of a layout: uncontended links, and all ranks start at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from clustersim.collectives.nccl_1 import OF_NCCL_1
from clustersim.collectives.schedule import Step
from clustersim.communicator.algorithm import algorithm_name, as_seen, is_tuned, schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.sm_share import sm_share
from clustersim.hardware.sheet import Transport
from clustersim.network.paths import Costs, connected, payload_rates, wait_s
from clustersim.network.uncontended.step import MessageRoutes, UncontendedStep, UncontendedSteps
from clustersim.topology import Node, Topology

Group = tuple[int, ...]


class MinTimes:
    """Minimum times of collectives of groups and of messages between ranks, which are on `gpus` [num_ranks].

    For a transport that stages in host memory no bound is known, and all times are 0 s. Where hosts are `alike`, groups
    at the same positions in any host take the same time. Where hosts are also `swappable` (on one switch), so do groups
    at the same positions in equally many hosts.
    """

    def __init__(
        self,
        topology: Topology,
        gpus: np.ndarray,
        transport: Transport,
        alike: bool = False,
        swappable: bool = False,
    ):
        self._topology, self._gpus, self._transport = as_seen(topology, transport.library), gpus, transport
        self._costs = Costs(
            transport.overhead_s,
            transport.efficiency,
            transport.host_overhead_s,
            transport.add_s_per_byte,
            connection_bytes_per_s=transport.connection_bytes_per_s,
        )
        self._alike, self._swappable = alike, alike and swappable
        self._hosts, self._first_gpus = np.unique(topology.gpu_domains, return_index=True)
        self._signatures: dict[tuple[Group, ...], Hashable] = {}
        self.has_bounds = transport.buffers == "gpu"
        self._least: dict[tuple[str, str, tuple[Group, ...], float], float] = {}
        self._sequences: dict[tuple[str, str, tuple[Group, ...], tuple[float, ...]], float] = {}
        self._chains: dict[tuple[str, str, Hashable, float], float] = {}
        self._link_bounds: dict[tuple[str, str, Hashable, float], float] = {}
        self._rings: dict[tuple[str, str, Group], list[tuple[UncontendedStep, int]]] = {}  # of one byte
        self._ways: dict[tuple[int, int], tuple[float, float]] = {}
        self._messages: dict[tuple[tuple[int, int], ...], list[tuple[float, float]]] = {}
        self._copy_rates: dict[bool, float] = {}
        self._sm_shares: dict[tuple[str, str, tuple[Group, ...], float], float] = {}

    @cached_property
    def _maker(self) -> UncontendedSteps:
        rates = payload_rates(self._topology, self._costs)
        return _Steps(self._topology, self._costs, self._transport.adds, rates)

    def collective_s(self, op: str, algorithm: str, groups: Sequence[Group], num_bytes: float) -> float:
        """Return the minimum time that a rank of any of these groups spends in a collective after entering it.

        It is the sum over the steps of the times of the rank's own messages (`_own_s`). It is 0 for groups that reach
        beyond `gpus`, if the request has more GPUs than the cluster.
        """
        if not self.has_bounds or len(groups[0]) < 2:
            return 0.0
        key = op, algorithm, tuple(groups), num_bytes
        if key not in self._least:
            there = (group for group in groups if max(group) < len(self._gpus))
            differing = {self._signature((group,)): group for group in there}
            chains = (self._chain(op, algorithm, own, group, num_bytes) for own, group in differing.items())
            self._least[key] = min(chains, default=0.0)
        return self._least[key]

    def concurrent_s(self, op: str, algorithm: str, groups: Sequence[Group], num_bytes: float) -> float:
        """Return the minimum time of a collective of all groups at once: bytes of the busiest link over its rate.

        The link carries the bytes of all groups; it is a host's adapter if the host has fewer of them than GPUs.
        """
        if not self.has_bounds or len(groups[0]) < 2:
            return 0.0
        key = op, algorithm, self._signature(tuple(groups)), num_bytes
        if key not in self._link_bounds:
            carried = np.zeros(self._maker.num_links)
            for group in groups:
                for step, times in self._steps(op, algorithm, group, num_bytes):
                    uses = step.uses
                    is_link = uses.link < self._maker.num_links
                    np.add.at(carried, uses.link[is_link], times * step.carried_bytes[is_link])
            busy = carried > 0
            self._link_bounds[key] = float((carried[busy] / self._maker.bytes_per_s[busy]).max(initial=0.0))
        return self._link_bounds[key]

    def sequence_s(self, op: str, algorithm: str, groups: Sequence[Group], sizes: Sequence[float]) -> float:
        """Return the minimum time of consecutive collectives of these sizes, each of all groups at once."""
        key = op, algorithm, tuple(groups), tuple(sizes)
        if key not in self._sequences:
            self._sequences[key] = max(
                sum(self.collective_s(op, algorithm, groups, size) for size in sizes),
                sum(self.concurrent_s(op, algorithm, groups, size) for size in sizes),
            )
        return self._sequences[key]

    def message_s(self, pairs: tuple[tuple[int, int], ...], num_bytes: float) -> float:
        """Return the minimum time of a message between two ranks, for the fastest of some pairs."""
        if not self.has_bounds or not pairs:
            return 0.0
        if pairs not in self._messages:
            self._messages[pairs] = list(dict.fromkeys(map(self._way, pairs)))
        return min(wait + num_bytes / rate for wait, rate in self._messages[pairs])

    def copy_s(self, to_host: bool, num_bytes: float) -> float:
        """Return the minimum time of a copy between a GPU and the memory of its host: bytes over the fastest route."""
        if not self.has_bounds:
            return 0.0
        if to_host not in self._copy_rates:
            nodes = [(int(self._topology.gpus[gpu]), int(self._topology.memory[gpu])) for gpu in self._gpus.tolist()]
            routes = (self._topology.route(*(ends if to_host else ends[::-1])) for ends in dict.fromkeys(nodes))
            self._copy_rates[to_host] = max(
                float(self._maker.bytes_per_s[route].min(initial=np.inf)) for route in routes
            )
        return num_bytes / self._copy_rates[to_host]

    def sm_share(self, op: str, algorithm: str, groups: Sequence[Group], num_bytes: float) -> float:
        """Return the minimum share of multiprocessors that a collective occupies on a GPU of any of these groups."""
        if not self.has_bounds or len(groups[0]) < 2:
            return 0.0
        key = op, algorithm, tuple(groups), num_bytes if op == "all-reduce" else 0.0
        if key not in self._sm_shares:
            there = (group for group in groups if max(group) < len(self._gpus))
            differing = {self._signature((group,)): group for group in there}
            shares = (self._share_of(op, algorithm, group, num_bytes) for group in differing.values())
            self._sm_shares[key] = min(shares, default=0.0)
        return self._sm_shares[key]

    def _share_of(self, op: str, algorithm: str, group: Group, num_bytes: float) -> float:
        gpus, name = self._gpus[list(group)], op
        if op == "all-reduce":
            name = algorithm_name(op, algorithm, self._topology, gpus, num_bytes, self._transport.library)
        return float(sm_share(self._topology, gpus, self._transport, name, algorithm).min())

    def crosses_hosts(self, group: Group) -> bool:
        """Return whether the ranks of a group are on several hosts, or NVLink domains of several."""
        return len(np.unique(self._topology.gpu_domains[self._gpus[list(group)]])) > 1

    def _signature(self, groups: tuple[Group, ...]) -> Hashable:
        """Return a key that is equal for groups that take equally long: their positions in hosts, or their ranks.

        Where hosts are swappable, they are numbered in the order of their first occurrence.
        """
        if groups not in self._signatures:
            gpus = self._gpus[[rank for group in groups for rank in group]]
            hosts = self._topology.gpu_domains[gpus]
            found, number = np.unique(hosts, return_inverse=True)
            signature: Hashable = groups
            if self._swappable or (self._alike and len(found) == 1):
                places = gpus - self._first_gpus[np.searchsorted(self._hosts, hosts)]
                number = np.unique(number, return_index=True)[1].argsort().argsort()[number]
                signature = (len(groups), *zip(number.tolist(), places.tolist(), strict=True))
            self._signatures[groups] = signature
        return self._signatures[groups]

    def _way(self, pair: tuple[int, int]) -> tuple[float, float]:
        if pair not in self._ways:
            src, dst = (int(self._topology.gpus[self._gpus[rank]]) for rank in pair)
            route = self._topology.route(src, dst)
            rate = float(self._maker.bytes_per_s[route].min(initial=np.inf))
            if self._costs.connection_bytes_per_s and connected(self._topology, src, dst):
                rate = min(rate, self._costs.connection_bytes_per_s)
            self._ways[pair] = wait_s(self._topology, self._costs, src, dst, route), rate
        return self._ways[pair]

    def _chain(self, op: str, algorithm: str, signature: Hashable, group: Group, num_bytes: float) -> float:
        key = op, algorithm, signature, num_bytes
        if key not in self._chains:
            total = np.zeros(len(group))
            for step, times in self._steps(op, algorithm, group, num_bytes):
                total += times * _own_s(step, self._maker.bytes_per_s)[: len(group)]
            self._chains[key] = float(total.min())
        return self._chains[key]

    def _steps(self, op: str, algorithm: str, group: Group, num_bytes: float) -> list[tuple[UncontendedStep, int]]:
        """Return the distinct steps of a collective, and the number of occurrences of each."""
        gpus = self._gpus[list(group)]
        library = self._transport.library
        name = algorithm_name(op, algorithm, self._topology, gpus, num_bytes, library)
        if name != "ring" or not num_bytes or is_tuned(library, algorithm):  # others scale with the bytes
            return self._made(op, algorithm, group, num_bytes)
        name = algorithm if algorithm in OF_NCCL_1 else name  # its ring differs from that of newer versions
        if (op, name, group) not in self._rings:
            self._rings[op, name, group] = self._made(op, name, group, 1.0)
        return [(_scaled(step, num_bytes), times) for step, times in self._rings[op, name, group]]

    def _made(self, op: str, algorithm: str, group: Group, num_bytes: float) -> list[tuple[UncontendedStep, int]]:
        gpus = self._gpus[list(group)]
        _, schedule = schedule_collective(op, algorithm, self._topology, gpus, num_bytes, self._transport.library)
        own = [Node(node) for node in self._topology.gpus[gpus].tolist()]
        nodes = np.array([*own, *extra_ranks(schedule, self._topology, gpus)], dtype=np.int64)
        found: dict[object, list[int]] = {}
        for number in range(schedule.num_steps):
            found.setdefault(schedule.pattern(number), []).append(number)
        wait_s, made = self._maker.step_wait_s(schedule, nodes), []
        for same in found.values():
            columns = schedule.step(same[0])
            made.append(
                (self._maker.step(columns, nodes, self._maker.message_routes(columns, nodes, wait_s)), len(same))
            )
        return made


class _Steps(UncontendedSteps):
    """Steps of many collectives of the same groups; the routes of messages between the same nodes are cached."""

    def __init__(self, topology: Topology, costs: Costs, adds: bool, bytes_per_s: np.ndarray):
        super().__init__(topology, costs, adds, bytes_per_s)
        self._known: dict[tuple[bytes, bytes, float | None], MessageRoutes] = {}

    def message_routes(self, columns: Step, nodes: np.ndarray, relayed_s: float | None) -> MessageRoutes:
        key = nodes[columns.src].tobytes(), nodes[columns.dst].tobytes(), relayed_s
        if key not in self._known:
            self._known[key] = super().message_routes(columns, nodes, relayed_s)
        return self._known[key]


def _scaled(step: UncontendedStep, factor: float) -> UncontendedStep:
    """Return the step with its bytes multiplied by `factor`: all messages of a ring scale alike."""
    return replace(
        step,
        num_bytes=step.num_bytes * factor,
        wire_s=step.wire_s * factor,
        adding_s=step.adding_s * factor,
    )


def _own_s(step: UncontendedStep, bytes_per_s: np.ndarray) -> np.ndarray:
    """Return the minimum time of each rank for a step that it has started [num_ranks].

    It is the maximum of its slowest message alone, and of the bytes of its messages on one link over the link's rate.
    """
    admitted_s = np.zeros(step.num_ranks)
    alone_s = step.done_s(admitted_s, step.spans(admitted_s))
    sent = slice(0, step.uses.num_sent)
    link, message = step.uses.link[sent], step.uses.message[sent]
    is_link = link < len(bytes_per_s)
    link, message = link[is_link], message[is_link]
    rate = bytes_per_s[link]
    contended_s = np.zeros(step.num_ranks)
    for ranks in (step.src, step.dst):
        key = ranks[message] * len(bytes_per_s) + link
        ends, which = np.unique(key, return_inverse=True)
        seconds = np.bincount(which, step.num_bytes[message] / rate, len(ends))
        np.maximum.at(contended_s, ends // len(bytes_per_s), seconds)
    own_s: np.ndarray = np.maximum(alone_s, contended_s)
    return own_s
