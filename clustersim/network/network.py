"""The network on the SimPy clock: transfers that a process can wait for, and whole collectives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import simpy
from simpy.events import EventPriority

from clustersim.collectives.schedule import Schedule
from clustersim.errors import InputError
from clustersim.network.collective import Collective
from clustersim.network.engine import Counts, Engine
from clustersim.network.fair_share import SHARING
from clustersim.network.flow import INFINITE, Flow, Path
from clustersim.network.paths import BYTES_MOVED_PER_ADDED, Costs, Paths, Plans
from clustersim.network.repeats import Repeats
from clustersim.topology import Topology, load_topology

_AFTER_ALL_OTHERS = EventPriority(2)  # SimPy runs lower numbers first within an instant; its own are 0 and 1


class TransferTimes(NamedTuple):
    """When a transfer was asked for, and when its last byte arrived."""

    start_s: float
    end_s: float


class Routes(NamedTuple):
    """Routes of messages and the time before their first byte [num_messages]."""

    routes: list[np.ndarray]
    latency_s: np.ndarray


class FlowRate(NamedTuple):
    """A flow as it is now: the numbers of its links, its weight and its rate."""

    links: tuple[int, ...]
    weight: float
    bytes_per_s: float


class Network:
    """Messages over the links of a topology, in simulated time.

    A message first waits for the latency of its route and `overhead_s`, then shares every link of the
    route with whatever else is there. `efficiency` is the share of a link's rate that is payload. With
    `adds`, a message that reduces also takes its time in the receiver's memory (`Topology.adders`), or
    `add_s_per_byte` where given. Inside a host a message costs `host_overhead_s`, where given.

    What happens inside the network needs no SimPy event: it is played ahead, up to the next event that
    anybody else has on the clock or to a completion that somebody waits for. So whoever acts does it from
    a process, or between two calls of `env.run`. At one time, the network comes after all other events.
    Steps of a collective that is alone and repeats itself are multiplied (`Repeats`), unless `exact`.
    """

    def __init__(
        self,
        env: simpy.Environment,
        topology: Topology | Any,
        sharing: str = "max-min",
        overhead_s: float = 0.0,
        efficiency: float = 1.0,
        adds: bool = False,
        host_overhead_s: float | None = None,
        add_s_per_byte: float | None = None,
        exact: bool = False,
    ):
        costs = Costs(overhead_s, efficiency, host_overhead_s, add_s_per_byte)
        self.env = env
        self.topology = topology if isinstance(topology, Topology) else load_topology(topology)
        self.overhead_s = overhead_s
        self.adds = adds
        self.engine = Engine(SHARING[sharing]())
        self.known_paths = Paths(self.topology, costs)
        self.plans = Plans(self.known_paths)
        self._repeats = None if exact else Repeats(self.engine, self.known_paths)
        self._alarm: simpy.Event | None = None
        self._alarm_s = INFINITE

    @property
    def link_bytes(self) -> np.ndarray:
        """[num_links] bytes that each link has carried, in messages that have ended."""
        carried = np.zeros(len(self.topology.links))
        for number, link in self.known_paths.links.items():
            carried[number] = link.carried_bytes
        return carried

    @property
    def counts(self) -> Counts:
        """How much work the network has done so far."""
        return self.engine.counts

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Which shortcuts were taken, in words."""
        if self._repeats is None or not self._repeats.num_steps:
            return ()
        return (f"steps of collectives multiplied: {self._repeats.num_steps} repeated the one before to 1e-12",)

    def flows(self) -> list[FlowRate]:
        """Return the flows that are on the wire, link by link in the order of first use."""
        on_links = (flow for link in self.known_paths.links.values() for flow in link.flows)
        return [
            FlowRate(tuple(link.number for link in flow.path.links), flow.weight, flow.bytes_per_s)
            for flow in dict.fromkeys(on_links)
        ]

    def watch(self, look: Callable[[float, list[FlowRate]], None]) -> None:
        """Call `look(time_s, flows)` after every share of the links from now on, to see rates as they change."""
        self.engine.after_share.append(lambda now_s: look(now_s, self.flows()))

    def transfer(self, src: Hashable, dst: Hashable, num_bytes: float, weight: float = 1.0) -> simpy.Event:
        """Send a message; return an event whose value is its `TransferTimes`.

        `src` and `dst` are nodes of the topology or GPU numbers. Beside others on a link, a message gets
        `weight` parts of its rate.
        """
        _check_message(num_bytes, weight)
        path = self.known_paths.between(self.topology.node(src), self.topology.node(dst))
        return self._send(path, float(num_bytes), float(weight))

    def add(self, node: Hashable, num_bytes: float) -> simpy.Event:
        """Add a gradient to another in a node's memory; return an event like that of `transfer`."""
        _check_message(num_bytes, 1.0)
        return self._send(self.known_paths.adding(self.topology.node(node)), num_bytes * BYTES_MOVED_PER_ADDED, 1.0)

    def begin(self, schedule: Schedule, ranks: Sequence[Hashable], delay_s: np.ndarray | None = None) -> Collective:
        """Prepare a collective among nodes; each rank enters it when it is ready."""
        if len(ranks) != schedule.num_ranks:
            raise InputError(
                f"the schedule has {schedule.num_ranks} ranks (got {len(ranks)} nodes)", got=str(len(ranks))
            )
        nodes = np.array([self.topology.node(rank) for rank in ranks], dtype=np.int64)
        self.before_acting()
        collective = Collective(self, schedule, nodes, delay_s)
        self.after_acting()
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
        collective.enter_at(times.tolist())
        self.after_acting()
        return collective.finished

    def paths(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes between nodes and the time before a first byte moves on them."""
        ends = list(zip(src.tolist(), dst.tolist(), strict=True))
        wait_s = [self.known_paths.between(*both).latency_s for both in ends]
        return Routes([self.topology.route(*both) for both in ends], np.array(wait_s))

    def before_acting(self) -> None:
        """Bring the engine to SimPy's time, which cannot be before its own (see the class)."""
        now_s = self.env.now
        if self.engine.latest(now_s) < self.engine.now_s:
            raise InputError(
                f"the network has played ahead to {self.engine.now_s} s and cannot act at {now_s} s: act from a "
                "process, or between two calls of env.run, not between two of env.step"
            )
        self.engine.now_s = max(now_s, self.engine.now_s)
        if self._repeats is not None:
            self._repeats.forget()

    def after_acting(self) -> None:
        """Tell SimPy what follows at once, and be woken for what comes later."""
        self._tell()
        self._set_alarm()

    def _send(self, path: Path, num_bytes: float, weight: float) -> simpy.Event:
        self.before_acting()
        sender = _Single(self)
        self.engine.post(Flow(path, num_bytes, weight, sender))
        self._set_alarm()
        return sender.event

    def _tell(self) -> None:
        """Fire the events of what has been completed."""
        told, self.engine.told = self.engine.told, []
        for event, value in told:
            event.succeed(value)

    def _set_alarm(self) -> None:
        """Wake up when the next thing happens; being woken too early does no harm."""
        time_s = self.engine.now_s if self.engine.told else self.engine.next_s()
        if time_s < self._alarm_s:
            alarm = self.env.event()
            alarm._ok, alarm._value = True, None  # as a SimPy timeout does, which has no priority to choose
            alarm.callbacks.append(self._on_alarm)
            self.env.schedule(alarm, priority=_AFTER_ALL_OTHERS, delay=max(0.0, time_s - self.env.now))
            self._alarm, self._alarm_s = alarm, time_s

    def _on_alarm(self, alarm: simpy.Event) -> None:
        if alarm is not self._alarm:
            return  # an earlier one has been set since
        self._alarm, self._alarm_s = None, INFINITE
        engine, repeats = self.engine, self._repeats
        self._tell()  # what was found by playing ahead to this time
        now_s = max(self.env.now, engine.now_s)
        if engine.next_s() <= engine.latest(now_s):
            engine.play_instant(now_s)
            self._tell()
        until_s = self.env.peek()
        while not engine.told and (time_s := engine.next_s()) < until_s:
            engine.play_instant(time_s)
            if repeats is not None and engine.stepped is not None:
                repeats.look(until_s)
        self._set_alarm()


class _Single:
    """The sender of a message that belongs to no collective."""

    __slots__ = ("_engine", "_start_s", "event")

    def __init__(self, network: Network):
        self.event: simpy.Event = network.env.event()
        self._engine = network.engine
        self._start_s = network.engine.now_s

    def ended(self, flow: Flow) -> None:
        """Tell whoever waits."""
        self._engine.tell(self.event, TransferTimes(self._start_s, self._engine.now_s))


def _check_message(num_bytes: float, weight: float) -> None:
    if not 0 <= num_bytes < float("inf"):
        raise InputError(f"a message has 0 or more bytes (got {num_bytes})", got=str(num_bytes))
    if not 0 < weight < float("inf"):
        raise InputError(f"a weight is above 0 (got {weight})", got=str(weight))
