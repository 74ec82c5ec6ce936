"""The network on the SimPy clock: transfers that a process can wait for, and whole collectives."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import simpy
from simpy.events import EventPriority

from clustersim.collectives.schedule import Schedule
from clustersim.errors import InputError
from clustersim.network.collective import Collective, Paths
from clustersim.network.fair_share import SHARING
from clustersim.network.flows import Flows, latest_of_instant
from clustersim.topology import Topology, load_topology

_AFTER_ALL_OTHERS = EventPriority(2)  # SimPy runs lower numbers first within an instant; its own are 0 and 1
_BYTES_MOVED_PER_ADDED = 3.0  # adding one byte to another reads both and writes one
_ALONE = -1  # stands where a collective's number would: a single transfer
_WIRE, _ADD = 0, 1


class TransferTimes(NamedTuple):
    """When a transfer was asked for, and when its last byte arrived."""

    start_s: float
    end_s: float


class Network:
    """Messages over the links of a topology, in simulated time.

    A message first waits for the latency of its route and `overhead_s`, then shares every link of the
    route with whatever else is there. `efficiency` is the share of a link's rate that is payload. With
    `adds`, a message that reduces also takes its time in the receiver's memory (`Topology.adders`).
    """

    def __init__(
        self,
        env: simpy.Environment,
        topology: Topology | Any,
        sharing: str = "max-min",
        overhead_s: float = 0.0,
        efficiency: float = 1.0,
        adds: bool = False,
    ):
        if not 0 < efficiency <= 1:
            raise InputError(f"efficiency must be above 0 and at most 1 (got {efficiency})", got=str(efficiency))
        if not 0 <= overhead_s < float("inf"):
            raise InputError(f"overhead_s must be a time of 0 or more (got {overhead_s})", got=str(overhead_s))
        self.env = env
        self.topology = topology if isinstance(topology, Topology) else load_topology(topology)
        self.overhead_s = overhead_s
        self.adds = adds
        payload = np.full(len(self.topology.links), efficiency)
        payload[list(self.topology.adders.values())] = 1.0  # a memory sends no headers
        self._flows = Flows(self.topology.links.bytes_per_s * payload, SHARING[sharing])
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._transfers: dict[int, tuple[simpy.Event, float]] = {}
        self._collectives: dict[int, Collective] = {}
        self._entries: list[Callable[[], None]] = []
        self._settling_is_due = False
        self._wake: simpy.Event | None = None
        self._wake_s = float("inf")

    @property
    def link_bytes(self) -> np.ndarray:
        """[num_links] bytes that each link has carried, in messages that have ended."""
        return self._flows.link_bytes[:-1]

    def transfer(self, src: Hashable, dst: Hashable, num_bytes: float, weight: float = 1.0) -> simpy.Event:
        """Send a message; return an event whose value is its `TransferTimes`.

        `src` and `dst` are nodes of the topology or GPU numbers. Beside others on a link, a message gets
        `weight` parts of its rate.
        """
        _check_message(num_bytes, weight)
        ends = np.array([[self.topology.node(src)], [self.topology.node(dst)]])
        event, tags = self._single()
        self.post(self.paths(*ends), np.array([float(num_bytes)]), float(weight), tags)
        self._ask_to_settle()
        return event

    def add(self, node: Hashable, num_bytes: float) -> simpy.Event:
        """Add a gradient to another in a node's memory; return an event like that of `transfer`."""
        _check_message(num_bytes, 1.0)
        event, tags = self._single()
        tags[0, 3] = _ADD
        self._start_adds(np.array([self.topology.node(node)]), np.array([float(num_bytes)]), tags)
        self._ask_to_settle()
        return event

    def begin(self, schedule: Schedule, ranks: Sequence[Hashable], delay_s: np.ndarray | None = None) -> Collective:
        """Prepare a collective among nodes; each rank enters it when it is ready."""
        if len(ranks) != schedule.num_ranks:
            raise InputError(
                f"the schedule has {schedule.num_ranks} ranks (got {len(ranks)} nodes)", got=str(len(ranks))
            )
        nodes = np.array([self.topology.node(rank) for rank in ranks], dtype=np.int64)
        number = next(self._order)
        collective = Collective(self, number, schedule, nodes, delay_s)
        if not collective.finished.triggered:
            self._collectives[number] = collective
        return collective

    def play(
        self,
        schedule: Schedule,
        ranks: Sequence[Hashable],
        enter_s: Sequence[float] | np.ndarray | None = None,
        delay_s: np.ndarray | None = None,
    ) -> simpy.Event:
        """Play a collective; return an event whose value has `end_s` [num_ranks].

        Rank i is `ranks[i]`, enters at the simulated time `enter_s[i]` (now, where not given) and pauses
        `delay_s[i, step]` before each step.
        """
        times = np.full(schedule.num_ranks, self.env.now) if enter_s is None else np.asarray(enter_s, dtype=float)
        if times.shape != (schedule.num_ranks,) or not (times >= self.env.now).all():
            raise InputError(
                f"enter_s must have a time for each of {schedule.num_ranks} ranks, none before now ({self.env.now} s)"
            )
        collective = self.begin(schedule, ranks, delay_s)
        for time in np.unique(times):
            together = np.flatnonzero(times == time).tolist()
            self.at(float(time), partial(collective.enter, *together))
        self._ask_to_settle()
        return collective.finished

    def paths(self, src: np.ndarray, dst: np.ndarray) -> Paths:
        """Return the routes between nodes and the time before a first byte moves on them."""
        routes = [self.topology.route(*ends) for ends in zip(src.tolist(), dst.tolist(), strict=True)]
        link_s = self.topology.links.latency_s
        wait = [float(link_s[route].sum()) + self.overhead_s if len(route) else 0.0 for route in routes]
        return Paths(routes, np.array(wait))

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Do something at a simulated time, in the order in which it was asked for."""
        heapq.heappush(self._later, (time_s, next(self._order), action))

    def post(self, paths: Paths, num_bytes: np.ndarray, weight: float, tags: np.ndarray) -> None:
        """Send messages: latency first, then the wire. From a node to itself a message ends at once."""
        for wait in np.unique(paths.latency_s):
            same = np.flatnonzero(paths.latency_s == wait)
            routes = [paths.routes[number] for number in same]
            self.at(self.env.now + float(wait), partial(self._reach_wire, routes, num_bytes[same], weight, tags[same]))

    def ask_for_entry(self, action: Callable[[], None]) -> None:
        """Do something when every process of this instant has had its say."""
        self._entries.append(action)
        self._ask_to_settle()

    def forget(self, collective: int) -> None:
        """Drop a collective that is over."""
        self._collectives.pop(collective, None)

    def _single(self) -> tuple[simpy.Event, np.ndarray]:
        event, number = self.env.event(), next(self._order)
        self._transfers[number] = event, self.env.now
        return event, np.array([[_ALONE, number, 0, _WIRE]])

    def _reach_wire(self, routes: list[np.ndarray], num_bytes: np.ndarray, weight: float, tags: np.ndarray) -> None:
        moving = np.array([len(route) > 0 for route in routes]) & (num_bytes > 0)
        if moving.any():
            chosen = [routes[number] for number in np.flatnonzero(moving)]
            weights = np.full(len(chosen), weight)
            self._flows.start(self.env.now, chosen, num_bytes[moving], weights, tags[moving])
        if not moving.all():
            self._ended(tags[~moving])

    def _start_adds(self, nodes: np.ndarray, num_bytes: np.ndarray, tags: np.ndarray) -> None:
        adders = [self.topology.adders.get(node, -1) for node in nodes.tolist()]
        routes = [np.array([adder][: adder >= 0], dtype=np.int64) for adder in adders]
        self._reach_wire(routes, num_bytes * _BYTES_MOVED_PER_ADDED, 1.0, tags)

    def _ended(self, tags: np.ndarray) -> None:
        """Tell whoever sent these messages that they have ended."""
        for collective in np.unique(tags[:, 0]).tolist():
            rows = tags[tags[:, 0] == collective]
            if collective == _ALONE:
                for number in rows[:, 1].tolist():
                    event, start_s = self._transfers.pop(number)
                    event.succeed(TransferTimes(start_s, self.env.now))
                continue
            for step in np.unique(rows[:, 1]).tolist():
                self._step_ended(self._collectives[collective], rows[rows[:, 1] == step])

    def _step_ended(self, collective: Collective, tags: np.ndarray) -> None:
        step, index = int(tags[0, 1]), tags[:, 2]
        if self.adds:
            reduces, nodes, num_bytes = collective.reducing(step, index)
            adding = reduces & (tags[:, 3] == _WIRE)
            if adding.any():
                tags = tags.copy()
                tags[:, 3] = _ADD
                self._start_adds(nodes[adding], num_bytes[adding], tags[adding])
                index = index[~adding]
        if len(index):
            collective.end(step, index)

    def _ask_to_settle(self) -> None:
        """Settle once all processes of this instant have had their say."""
        if not self._settling_is_due:
            self._settling_is_due = True
            event = self.env.event()
            event._ok, event._value = True, None
            event.callbacks.append(self._settle)
            self.env.schedule(event, priority=_AFTER_ALL_OTHERS)

    def _settle(self, _: simpy.Event) -> None:
        self._settling_is_due = False
        self._run_instant()
        self._flows.share(self.env.now)
        self._set_alarm()

    def _run_instant(self) -> None:
        """Do everything that is due now, until nothing more follows from it."""
        latest = latest_of_instant(self.env.now)
        while True:
            entries, self._entries = self._entries, []
            for enter in entries:
                enter()
            ended = self._flows.due(self.env.now)
            if len(ended):
                self._ended(ended)
            is_due = self._later and self._later[0][0] <= latest
            if is_due:
                heapq.heappop(self._later)[2]()
            if not (entries or len(ended) or is_due):
                return

    def _set_alarm(self) -> None:
        """Wake up when the next thing happens."""
        time_s = min(self._flows.next_end(), self._later[0][0] if self._later else float("inf"))
        if time_s == self._wake_s and self._wake is not None:
            return
        self._wake, self._wake_s = None, time_s
        if time_s < float("inf"):
            self._wake = self.env.timeout(max(0.0, time_s - self.env.now))
            self._wake.callbacks.append(self._on_alarm)

    def _on_alarm(self, alarm: simpy.Event) -> None:
        if alarm is self._wake:
            self._wake = None
            self._run_instant()
            self._ask_to_settle()


def _check_message(num_bytes: float, weight: float) -> None:
    if not 0 <= num_bytes < float("inf"):
        raise InputError(f"a message has 0 or more bytes (got {num_bytes})", got=str(num_bytes))
    if not 0 < weight < float("inf"):
        raise InputError(f"a weight is above 0 (got {weight})", got=str(weight))
