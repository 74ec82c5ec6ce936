"""Paths of messages through a topology, and what a message costs on them."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakSet

import numpy as np

from clustersim.arguments import check_number
from clustersim.collectives.schedule import Schedule
from clustersim.network.flow import Link, Path
from clustersim.topology import Topology
from clustersim.topology.routes import Routes

BYTES_MOVED_PER_ADDED = 3.0  # adding one byte to another reads both and writes one


@dataclass(frozen=True)
class Costs:
    """What a message costs beside its links' latency and rate.

    `overhead_s` a message, or `host_overhead_s` where it stays inside a host; `efficiency` is the share of a
    link's rate that is payload. Adding takes `add_s_per_byte`, or else one core's time, and in all no more than the
    memory's rate. Where `eager_bytes` is above 0, messages of a collective of at most so many bytes do not wait for
    their receiver. Messages from one node to another of a different host go over one connection, which carries no
    more payload than `connection_bytes_per_s`, where given.
    """

    overhead_s: float = 0.0
    efficiency: float = 1.0
    host_overhead_s: float | None = None
    add_s_per_byte: float | None = None
    eager_bytes: float = 0.0
    connection_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        check_number("efficiency", self.efficiency, above=0, most=1)
        check_number("overhead_s", self.overhead_s, least=0)
        for name in ("host_overhead_s", "add_s_per_byte"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=0)
        check_number("eager_bytes", self.eager_bytes, least=0, may_be_infinite=True)
        if self.connection_bytes_per_s is not None:
            check_number("connection_bytes_per_s", self.connection_bytes_per_s, above=0)


class Paths:
    """The paths that have been used. Links are made when a path first crosses them: a cluster may have 200,000.

    Links that the same paths cross are one `Link`. It is split when a path crosses only some of them. `links` has
    the link of each number.
    """

    def __init__(self, topology: Topology, costs: Costs):
        self.links: dict[int, Link] = {}
        self.connections: dict[tuple[int, int], Link] = {}  # from node to node, where connections have a rate
        self._topology = topology
        self._costs = costs
        self._between: dict[tuple[int, int], Path] = {}
        self._relayed: dict[tuple[int, int, float], Path] = {}
        self._adding: dict[tuple[int, int], Path] = {}
        self._capped: WeakSet[Path] = WeakSet()
        self._num_private = 0

    def between(self, src: int, dst: int) -> Path:
        """Return the path from node to node. From a node to itself it has no links and takes no time."""
        path = self._between.get((src, dst))
        if path is None:
            route = self._topology.route(src, dst)
            latency_s = wait_s(self._topology, self._costs, src, dst, route)
            path = self._between[src, dst] = self._over(route.tolist(), latency_s)
            path.links += self._connection(src, dst)
        return path

    def relayed(self, src: int, dst: int, latency_s: float) -> Path:
        """Return the path from node to node of a channel's message, which has the wait of its whole schedule."""
        path = self._relayed.get((src, dst, latency_s))
        if path is None:
            path = self._over(self._topology.channel_route(src, dst).tolist(), latency_s)
            path.links += self._connection(src, dst)
            self._relayed[src, dst, latency_s] = path
        return path

    def step_wait_s(self, schedule: Schedule, nodes: np.ndarray) -> float | None:
        """Return how long each step of a schedule with relays waits; None where it has none."""
        return step_wait_s(self._topology, self._costs, schedule, nodes)

    def capped(self, src: int, dst: int, bytes_per_s: float) -> Path:
        """Return a path from node to node with a private link of that rate."""
        path = self.between(src, dst)
        capped = Path((*path.links, self._private(bytes_per_s)), path.latency_s)
        self._capped.add(capped)
        return capped

    def adding(self, node: int, adder: int = 0) -> Path:
        """Return the path of adding in a node's memory, for one adder there; without links if adding takes no time.

        All share the memory's rate, and each has one core of a host, or the library's own measured rate.
        """
        path = self._adding.get((node, adder))
        if path is None:
            shared, private = adders(self._topology, self._costs, node)
            path = self._adding[node, adder] = self._over(shared, 0.0)
            path.links += tuple(map(self._private, private))
        return path

    def in_memory(self) -> dict[tuple[int, int], Path]:
        """Return the paths of adding that have been used, by node and adder."""
        return self._adding

    def link(self, number: int) -> Link:
        """Return the link of a number, which may stand for others too."""
        return self.links.get(number) or self._new_link([number])

    def _connection(self, src: int, dst: int) -> tuple[Link, ...]:
        """Return the link of the connection from node to node, if connections have a rate."""
        if not self._costs.connection_bytes_per_s or not connected(self._topology, src, dst):
            return ()
        if (src, dst) not in self.connections:
            self.connections[src, dst] = self._private(self._costs.connection_bytes_per_s)
        return (self.connections[src, dst],)

    def _over(self, numbers: list[int], latency_s: float) -> Path:
        """Return a new path over links by their numbers."""
        known: dict[Link, list[int]] = {}
        for number in numbers:
            if number in self.links:
                known.setdefault(self.links[number], []).append(number)
        new = [number for number in numbers if number not in self.links]
        links = [self._apart(link, crossed) for link, crossed in known.items()]
        path = Path(tuple([*links, self._new_link(new)] if new else links), latency_s)
        for link in path.links:
            link.paths.append(path)
        return path

    def _apart(self, link: Link, crossed: list[int]) -> Link:
        """Return the part of a link that a path crosses; where it crosses only a part, the link is split."""
        if len(crossed) == len(link.rates):
            return link
        has_narrowest = link.number in crossed
        other = link.split([number for number in link.rates if (number in crossed) != has_narrowest])
        self.links.update(dict.fromkeys(other.rates, other))
        for path in [*link.paths, *(path for path in self._capped if link in path.links)]:
            path.links = (*path.links, other)
        return link if has_narrowest else other

    def _new_link(self, numbers: list[int]) -> Link:
        sheets = {number: float(self._topology.links.bytes_per_s[number]) for number in numbers}
        rates = {
            number: payload_bytes_per_s(self._topology, self._costs, number, rate) for number, rate in sheets.items()
        }
        link = Link(rates)
        self.links.update(dict.fromkeys(numbers, link))
        return link

    def _private(self, bytes_per_s: float) -> Link:
        self._num_private += 1
        return Link({-self._num_private: bytes_per_s})


def payload_bytes_per_s(topology: Topology, costs: Costs, link: int, bytes_per_s: float) -> float:
    """Return the payload rate of a link with a given rate on its sheet; a memory sends no headers."""
    return bytes_per_s if link in topology.adder_links else bytes_per_s * costs.efficiency


def payload_rates(topology: Topology, costs: Costs) -> np.ndarray:
    """Return the payload rates of all links [num_links], from their sheets."""
    rates = topology.links.bytes_per_s * costs.efficiency
    memories = list(topology.adder_links)
    rates[memories] = topology.links.bytes_per_s[memories]
    return rates


def adders(topology: Topology, costs: Costs, node: int) -> tuple[list[int], list[float]]:
    """Return the shared links of adding in a node's memory, and the rates of its private links.

    There are none where adding takes no time.
    """
    adder = topology.adders.get(node)
    if adder is None or costs.add_s_per_byte == 0:
        return [], []
    own = topology.core_bytes_per_s(node)
    if costs.add_s_per_byte is not None:
        own = BYTES_MOVED_PER_ADDED / costs.add_s_per_byte
    return [adder], [] if own is None else [own]


def connected(topology: Topology, src: np.ndarray | int, dst: np.ndarray | int) -> np.ndarray:
    """Return whether messages between nodes [num_paths] leave a host, so that they go over a connection."""
    between: np.ndarray = ~(np.equal(src, dst) | topology.are_together(src, dst))
    return between


def wait_s(topology: Topology, costs: Costs, src: int, dst: int, route: np.ndarray) -> float:
    """Return the time before a first byte moves from node to node; 0 from a node to itself."""
    if not len(route):
        return 0.0
    inside = costs.host_overhead_s
    overhead_s = costs.overhead_s if inside is None or not topology.are_together(src, dst) else inside
    return float(topology.links.latency_s[route].sum()) + overhead_s


def waits_s(
    topology: Topology, costs: Costs, src: np.ndarray, dst: np.ndarray, routes: Routes, shares: np.ndarray | None = None
) -> np.ndarray:
    """Return the time before a first byte moves between nodes [num_paths]; 0 from a node to itself.

    With `shares` [num_paths], messages have that share of the overhead.
    """
    overhead_s = np.full(len(src), costs.overhead_s)
    if costs.host_overhead_s is not None:
        overhead_s[topology.are_together(src, dst)] = costs.host_overhead_s
    if shares is not None:
        overhead_s *= shares
    wait_s, has_way = np.zeros(len(src)), np.diff(routes.first) > 0
    if has_way.any():
        latency_s = np.add.reduceat(topology.links.latency_s[routes.links], routes.first[:-1][has_way])
        wait_s[has_way] = latency_s + overhead_s[has_way]
    return wait_s


def step_wait_s(topology: Topology, costs: Costs, schedule: Schedule, nodes: np.ndarray) -> float | None:
    """Return how long each step of a schedule with relays waits between nodes [num_ranks]; None where it has none.

    That is (sum(times x wait of hop) + `wait_s` of the schedule) / steps.
    """
    relays = schedule.relays
    if relays is None or not schedule.num_steps:
        return None
    src, dst = nodes[relays.src], nodes[relays.dst]
    wait_s = waits_s(topology, costs, src, dst, topology.channel_routes(src, dst), relays.shares)
    return (float(wait_s @ relays.times) + schedule.wait_s) / schedule.num_steps
