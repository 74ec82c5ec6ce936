"""The messages of a step and the time that each takes without contention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from clustersim.collectives.schedule import Schedule, Step
from clustersim.network.paths import BYTES_MOVED_PER_ADDED, Costs, adders, connected, step_wait_s, waits_s
from clustersim.network.uncontended.ring import RingSteps
from clustersim.topology import Topology
from clustersim.topology.routes import Routes

_MOST_EMPTY = 4  # entries of a table for each filled one; with more, segments are faster


class LinkUses(NamedTuple):
    """Which message crosses which link: first all that are sent, then all that are added, in columns [num_uses]."""

    link: np.ndarray
    message: np.ndarray
    num_sent: int


class MessageRoutes(NamedTuple):
    """The routes of messages, and the time that each waits before its first byte moves [num_messages]."""

    routes: Routes
    latency_s: np.ndarray

    def take(self, which: np.ndarray) -> MessageRoutes:
        """Return the routes of some of the messages."""
        return MessageRoutes(self.routes.take(which), self.latency_s[which])


class MessageSpans(NamedTuple):
    """When each message reaches its links and leaves them, when its adding begins and when it ends [num_messages]."""

    on_s: np.ndarray
    off_s: np.ndarray
    add_s: np.ndarray
    over_s: np.ndarray


@dataclass(frozen=True, eq=False)
class UncontendedStep:
    """A step without contention, in columns [num_messages].

    A message that starts at t is on its links from t + `latency_s`, leaves them after another `wire_s`, and ends
    after another `adding_s`. Where `eager`, it starts without its receiver and is added when its receiver is there.
    Rates are those that the path allows. `uses` has links by number; the core that rank i adds on is
    link `num_links + i`, and connections between nodes have numbers after those of the cores.
    """

    num_ranks: int
    src: np.ndarray
    dst: np.ndarray
    num_bytes: np.ndarray
    latency_s: np.ndarray
    wire_s: np.ndarray
    adding_s: np.ndarray
    wire_bytes_per_s: np.ndarray
    adding_bytes_per_s: np.ndarray
    eager: np.ndarray | None
    uses: LinkUses

    @cached_property
    def adds(self) -> bool:
        return bool(self.adding_s.any())

    @cached_property
    def takes_part(self) -> np.ndarray:
        """[num_ranks] whether a rank has messages."""
        part = np.zeros(self.num_ranks, dtype=bool)
        part[self.src] = part[self.dst] = True
        return part

    @cached_property
    def carried_bytes(self) -> np.ndarray:
        """[num_uses] bytes that each message moves over each link."""
        num_bytes: np.ndarray = self.num_bytes[self.uses.message]
        num_bytes[self.uses.num_sent :] *= BYTES_MOVED_PER_ADDED
        return num_bytes

    def spans(self, admitted_s: np.ndarray) -> MessageSpans:
        """Return when each message moves, given when each rank began to send and receive [num_ranks]."""
        from_s, to_s = admitted_s.take(self.src), admitted_s.take(self.dst)
        start_s = np.maximum(from_s, to_s)
        if self.eager is not None:
            start_s = np.where(self.eager, from_s, start_s)
        on_s = start_s + self.latency_s
        off_s = add_s = on_s + self.wire_s
        if self.eager is not None:
            add_s = np.where(self.eager, np.maximum(off_s, to_s), off_s)
        return MessageSpans(on_s, off_s, add_s, add_s + self.adding_s if self.adds else add_s)

    def done_s(self, admitted_s: np.ndarray, spans: MessageSpans) -> np.ndarray:
        """Return when each rank is done with its messages [num_ranks]; without any, when it began."""
        own = self._own
        ends_s = spans.over_s
        if own.is_padded:
            parts = [ends_s, _NEVER]
            if self.eager is not None:
                parts.insert(1, np.where(self.eager, spans.off_s, spans.over_s))
            ends_s = np.concatenate(parts)
        if own.ranks is None:
            done_s = admitted_s
            for ends in own.ends:
                done_s = np.maximum(done_s, ends_s.take(ends))
            return done_s
        done_s = admitted_s.copy()
        done_s[own.ranks] = np.maximum(admitted_s[own.ranks], np.maximum.reduceat(ends_s[own.ends], own.starts))
        return done_s

    @cached_property
    def ring(self) -> RingSteps | None:
        """Many such steps at once, where it is a step of a ring and all messages take equally long."""
        if self.eager is not None or not self.num_ranks:
            return None
        return RingSteps.of(self.num_ranks, self.src, self.dst, [self.latency_s, self.wire_s, self.adding_s])

    @cached_property
    def _own(self) -> _Own:
        """The place of the ends of each rank's messages in over_s, then those for senders where some are eager."""
        num = len(self.src)
        sent = np.flatnonzero(self.src != self.dst)
        ranks = np.concatenate([self.src[sent], self.dst])
        ends = np.concatenate([sent if self.eager is None else sent + num, np.arange(num)])
        counts = np.bincount(ranks, minlength=self.num_ranks)
        order = np.argsort(ranks, kind="stable")
        starts = np.cumsum(counts) - counts
        most = int(counts.max(initial=1))
        if most * self.num_ranks > _MOST_EMPTY * max(len(ranks), self.num_ranks):
            used = np.flatnonzero(counts)
            return _Own(ends[order], used, starts[used], self.eager is not None)
        table = np.full((most, self.num_ranks), num if self.eager is None else 2 * num)
        table[np.arange(len(ranks)) - starts[ranks[order]], ranks[order]] = ends[order]
        return _Own(table, None, starts, bool(self.eager is not None or (counts < most).any()))


_NEVER = np.array([-np.inf])


class _Own(NamedTuple):
    """The ends of each rank's messages: a table [most of a rank, num_ranks], or segments of ranks with messages.

    Where `is_padded`, some entries are ends for senders only, or of no message.
    """

    ends: np.ndarray
    ranks: np.ndarray | None
    starts: np.ndarray
    is_padded: bool


class UncontendedSteps:
    """Computes steps between nodes of a topology."""

    def __init__(self, topology: Topology, costs: Costs, adds: bool, bytes_per_s: np.ndarray):
        self.adds = adds
        self.num_links = len(topology.links)
        self.bytes_per_s = bytes_per_s
        self._topology = topology
        self._costs = costs

    def message_routes(self, columns: Step, nodes: np.ndarray, relayed_s: float | None) -> MessageRoutes:
        """Return the routes of messages among these nodes [num_ranks], with one wait of all of them if it is given."""
        src, dst = nodes[columns.src], nodes[columns.dst]
        if relayed_s is not None:
            return MessageRoutes(self._topology.channel_routes(src, dst), np.full(len(src), relayed_s))
        routes = self._topology.routes(src, dst)
        return MessageRoutes(routes, waits_s(self._topology, self._costs, src, dst, routes))

    def step(self, columns: Step, nodes: np.ndarray, routes: MessageRoutes) -> UncontendedStep:
        """Return a step of a collective among these nodes [num_ranks], whose messages take these routes."""
        src, dst = columns.src, columns.dst
        first, links = routes.routes
        sent = np.repeat(np.arange(len(src)), np.diff(first))
        wire_bytes_per_s = _narrowest(first, self.bytes_per_s[links])
        if self._costs.connection_bytes_per_s:
            own = np.flatnonzero(connected(self._topology, nodes[src], nodes[dst]))
            wire_bytes_per_s[own] = np.minimum(wire_bytes_per_s[own], self._costs.connection_bytes_per_s)
            ends = nodes[src[own]] * len(self._topology.node_hosts) + nodes[dst[own]]
            links = np.concatenate([links, self.num_links + len(nodes) + ends])
            sent = np.concatenate([sent, own])
        core, adding_bytes_per_s, adder = self._adding(columns, nodes)
        added = np.flatnonzero(np.isfinite(adding_bytes_per_s))
        on_core = np.flatnonzero(np.isfinite(core))
        used = np.concatenate([links, adder[added], self.num_links + dst[on_core]])
        message = np.concatenate([sent, added, on_core])
        moves = columns.num_bytes[message] > 0
        uses = LinkUses(used[moves], message[moves], int(np.count_nonzero(moves[: len(sent)])))
        wire_s = _uncontended_s(columns.num_bytes, wire_bytes_per_s)
        adding_s = _uncontended_s(BYTES_MOVED_PER_ADDED * columns.num_bytes, adding_bytes_per_s)
        return UncontendedStep(
            len(nodes), src, dst, columns.num_bytes, routes.latency_s, wire_s, adding_s, wire_bytes_per_s,
            adding_bytes_per_s, self._eager(columns), uses,
        )  # fmt: skip

    def step_wait_s(self, schedule: Schedule, nodes: np.ndarray) -> float | None:
        """Return how long each step of a schedule with relays waits; None where it has none."""
        return step_wait_s(self._topology, self._costs, schedule, nodes)

    def _eager(self, columns: Step) -> np.ndarray | None:
        """Return which messages do not wait for their receiver, if any; a message of a rank to itself never waits."""
        if not self._costs.eager_bytes:
            return None
        eager: np.ndarray = (columns.num_bytes <= self._costs.eager_bytes) & (columns.src != columns.dst)
        return eager if eager.any() else None

    def own_bytes_per_s(self, links: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return the rates of links [num_links] by their numbers in a step among nodes [num_ranks]."""
        rates = np.full(len(links), self._costs.connection_bytes_per_s or np.inf)
        is_link, is_connection = links < self.num_links, links >= self.num_links + len(nodes)
        is_core = ~(is_link | is_connection)
        rates[is_link] = self.bytes_per_s[links[is_link]]
        rates[is_core] = self.core_bytes_per_s(nodes[links[is_core] - self.num_links])
        return rates

    def core_bytes_per_s(self, nodes: np.ndarray) -> np.ndarray:
        """Return the rate of each rank's own core when it adds [num_ranks], infinite without a limit."""
        kinds, which = np.unique(nodes, return_inverse=True)
        own = [adders(self._topology, self._costs, node)[1] for node in kinds.tolist()]
        return np.array([rates[0] if rates else np.inf for rates in own])[which]

    def _adding(self, columns: Step, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of each message the rate of the receiver's core and of its adding, and the memory's link.

        The rates are infinite, and the link is -1, where adding takes no time.
        """
        num = len(columns.src)
        core, rate, adder = np.full(num, np.inf), np.full(num, np.inf), np.full(num, -1)
        added = np.flatnonzero(columns.reduce) if self.adds else np.empty(0, dtype=np.int64)
        where, which = np.unique(nodes[columns.dst[added]], return_inverse=True)
        links = [adders(self._topology, self._costs, node)[0] for node in where.tolist()]
        adder[added] = np.array([own[0] if own else -1 for own in links], dtype=np.int64)[which]
        slow = added[adder[added] >= 0]
        core[slow] = self.core_bytes_per_s(nodes[columns.dst[slow]])
        rate[slow] = np.minimum(core[slow], self.bytes_per_s[adder[slow]])
        return core, rate, adder


def _uncontended_s(num_bytes: np.ndarray, bytes_per_s: np.ndarray) -> np.ndarray:
    """Return how long each takes: infinite at rate 0, and 0 for no bytes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(num_bytes > 0, num_bytes / bytes_per_s, 0.0)


def _narrowest(first: np.ndarray, bytes_per_s: np.ndarray) -> np.ndarray:
    """Return the lowest rate on each route, infinite where it has no link."""
    narrowest = np.full(len(first) - 1, np.inf)
    on_way = np.flatnonzero(np.diff(first))
    if len(on_way):
        narrowest[on_way] = np.minimum.reduceat(bytes_per_s, first[on_way])
    return narrowest
