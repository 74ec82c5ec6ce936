"""Paths of messages through a topology, and the patterns of messages that come again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.collectives.schedule import Schedule, Step
from clustersim.errors import InputError
from clustersim.network.flow import INFINITE, Link, Path
from clustersim.topology import Topology

BYTES_MOVED_PER_ADDED = 3.0  # adding one byte to another reads both and writes one
_MOST_MESSAGES = 1 << 17  # in patterns that are kept
_MOST_MESSAGES_OF_A_KEPT_SCHEDULE = 1 << 14


@dataclass(frozen=True)
class Costs:
    """What a message costs beside its links' latency and rate.

    `overhead_s` a message, or `host_overhead_s` where it stays inside a host; `efficiency` is the share of a
    link's rate that is payload; adding takes `add_s_per_byte`, or else one core's time, and no
    more than the memory's rate in all.
    """

    overhead_s: float = 0.0
    efficiency: float = 1.0
    host_overhead_s: float | None = None
    add_s_per_byte: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.efficiency <= 1:
            raise InputError(
                f"efficiency must be above 0 and at most 1 (got {self.efficiency})", got=str(self.efficiency)
            )
        for name in ("overhead_s", "host_overhead_s", "add_s_per_byte"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < INFINITE:
                raise InputError(f"{name} must be a time of 0 or more (got {value})", got=str(value))


class Paths:
    """The paths that have been used. Links are made when a path first crosses them: a cluster may have 200,000."""

    def __init__(self, topology: Topology, costs: Costs):
        self.links: dict[int, Link] = {}
        self._topology = topology
        self._costs = costs
        self._memories = frozenset(topology.adders.values())
        self._between: dict[tuple[int, int], Path] = {}
        self._adding: dict[tuple[int, int], Path] = {}

    def between(self, src: int, dst: int) -> Path:
        """Return the path from node to node. From a node to itself it has no links and takes no time."""
        path = self._between.get((src, dst))
        if path is None:
            route = self._topology.route(src, dst)
            wait_s = (
                float(self._topology.links.latency_s[route].sum()) + self._overhead_s(src, dst) if len(route) else 0.0
            )
            path = Path(tuple(self._link(link) for link in route.tolist()), wait_s)
            self._between[src, dst] = path
        return path

    def adding(self, node: int, who: int = 0) -> Path:
        """Return the path of adding in a node's memory, by one of those who add there; without links if it is free.

        All share the memory's rate, and each has one core of a host, or the library's own measured rate.
        """
        path = self._adding.get((node, who))
        if path is None:
            path = self._adding[node, who] = Path(tuple(self._adders(node)), 0.0)
        return path

    def _adders(self, node: int) -> list[Link]:
        shared, private = adders(self._topology, self._costs, node)
        return [*map(self._link, shared), *(Link(-1 - len(self._adding), rate) for rate in private)]

    def _overhead_s(self, src: int, dst: int) -> float:
        hosts, inside = self._topology.node_hosts, self._costs.host_overhead_s
        is_inside = inside is not None and hosts[src] == hosts[dst] >= 0
        return inside if is_inside and inside is not None else self._costs.overhead_s

    def _link(self, number: int) -> Link:
        link = self.links.get(number)
        if link is None:
            link = self.links[number] = Link(number, self._bytes_per_s(number))
        return link

    def _bytes_per_s(self, number: int) -> float:
        """Return the payload rate of a link; a memory sends no headers."""
        sheet = float(self._topology.links.bytes_per_s[number])
        return sheet if number in self._memories else sheet * self._costs.efficiency


def adders(topology: Topology, costs: Costs, node: int) -> tuple[list[int], list[float]]:
    """Return the links that adding in a node's memory shares with others, and the rates of those of its own.

    There are none where adding takes no time.
    """
    adder = topology.adders.get(node)
    if adder is None or costs.add_s_per_byte == 0:
        return [], []
    own = topology.core_bytes_per_s(node)
    if costs.add_s_per_byte is not None:
        own = BYTES_MOVED_PER_ADDED / costs.add_s_per_byte
    return [adder], [] if own is None else [own]


def waits_s(topology: Topology, costs: Costs, src: np.ndarray, dst: np.ndarray, routes: Routes) -> np.ndarray:
    """Return the time before a first byte moves between nodes [num_paths]; from a node to itself it is none."""
    beyond = np.concatenate([[0.0], np.cumsum(topology.links.latency_s[routes.links])])
    hosts, overhead_s = topology.node_hosts, np.full(len(src), costs.overhead_s)
    if costs.host_overhead_s is not None:
        overhead_s[(hosts[src] == hosts[dst]) & (hosts[src] >= 0)] = costs.host_overhead_s
    has_way = np.diff(routes.first) > 0
    return np.where(has_way, np.diff(beyond[routes.first]) + overhead_s, 0.0)


class Pattern:
    """Who sends to whom in a step, over which paths. A message is known by its number in the step."""

    __slots__ = ("dst", "messages", "num_ends", "num_messages", "paths", "src")

    def __init__(self, paths: Paths, nodes: np.ndarray, columns: Step):
        self.src: list[int] = columns.src.tolist()
        self.dst: list[int] = columns.dst.tolist()
        ends = zip(nodes[columns.src].tolist(), nodes[columns.dst].tolist(), strict=True)
        self.paths = [paths.between(*both) for both in ends]
        messages: list[list[int]] = [[] for _ in range(len(nodes))]
        for number, (src, dst) in enumerate(zip(self.src, self.dst, strict=True)):
            messages[src].append(number)
            if dst != src:
                messages[dst].append(number)
        self.messages = messages  # of each rank, sent or received
        self.num_messages = [len(own) for own in messages]
        self.num_ends = [1 if src == dst else 2 for src, dst in zip(self.src, self.dst, strict=True)]


class Plan(NamedTuple):
    """A step as it is played: its pattern, and of each message the bytes and whether the receiver adds it."""

    pattern: Pattern
    num_bytes: list[float]
    reduce: list[bool]


class Plans:
    """The steps of schedules between some nodes. What comes again, in one schedule or the next, is worked out once.

    Patterns are told apart by senders and receivers. Whole steps are kept for short schedules only: a long
    one repeats few patterns in many steps.
    """

    def __init__(self, paths: Paths):
        self._paths = paths
        self._patterns: dict[tuple[bytes, bytes, bytes], Pattern] = {}
        self._num_messages = 0
        self._alike: WeakKeyDictionary[Schedule, dict[int, tuple[int, bool]]] = WeakKeyDictionary()
        self._kept: WeakKeyDictionary[Schedule, dict[tuple[bytes, int], Plan]] = WeakKeyDictionary()

    def kept(self, schedule: Schedule) -> dict[tuple[bytes, int], Plan]:
        """Return the steps that are kept of a schedule, by nodes and number; they go when the schedule goes."""
        return self._kept.setdefault(schedule, {})

    def step(self, schedule: Schedule, nodes: np.ndarray, number: int) -> Plan:
        """Work out a step of a schedule between these nodes [num_ranks]."""
        columns = schedule.step(number)
        plan = Plan(self._pattern(nodes, columns), columns.num_bytes.tolist(), columns.reduce.tolist())
        if schedule.num_ranks * schedule.num_steps <= _MOST_MESSAGES_OF_A_KEPT_SCHEDULE:
            self.kept(schedule)[nodes.tobytes(), number] = plan
        return plan

    def alike_until(self, schedule: Schedule, step: int, last: int, adds: bool) -> int:
        """Return the last step, at most `last`, up to which all have the messages of `step`.

        With `adds`, the same must be added. What has been found is kept with the schedule.
        """
        known = self._alike.setdefault(schedule, {})
        until, is_end = known.get(step, (step, False))
        if until < last and not is_end:
            first = schedule.step(step)
            while until < last and not is_end:
                is_end = not _are_alike(first, schedule.step(until + 1), adds)
                until += not is_end
            known[step] = until, is_end
        return min(until, last)

    def _pattern(self, nodes: np.ndarray, columns: Step) -> Pattern:
        key = nodes.tobytes(), columns.src.tobytes(), columns.dst.tobytes()
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = Pattern(self._paths, nodes, columns)
            self._num_messages += len(pattern.src)
            if self._num_messages > _MOST_MESSAGES:
                self._patterns.clear()
                self._num_messages = len(pattern.src)
            self._patterns[key] = pattern
        return pattern


def _are_alike(one: Step, other: Step, adds: bool) -> bool:
    columns = [(one.src, other.src), (one.dst, other.dst), (one.num_bytes, other.num_bytes)]
    if adds:
        columns.append((one.reduce, other.reduce))
    return all(a is b or np.array_equal(a, b) for a, b in columns)
