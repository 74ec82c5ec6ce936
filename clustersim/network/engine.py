"""The network's own clock: flows start, move and end, instant by instant, without a SimPy event for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import simpy

from clustersim.network.agenda import Agenda, Endings
from clustersim.network.flow import Flow, Link
from clustersim.network.max_min import MaxMin

_SAME_INSTANT = 1e-13  # relative: what happens closer together than this is one instant


class Counts(NamedTuple):
    """How much work has been done: instants played, flows started, shares solved and link levels computed in them."""

    instants: int
    flows: int
    solves: int
    levels: int


class Pausing(Protocol):
    """Whoever lets ranks pause."""

    def resume(self, rank: int) -> None: ...


class Engine:
    """Plays instant after instant up to where it is told; what SimPy waits for is collected in `told`.

    Within an instant flows end first, then ranks go on, then messages reach their links, round and round
    until nothing more is due; one share of the links follows.
    """

    def __init__(self, sharing: MaxMin) -> None:
        self.now_s = 0.0
        self.told: list[tuple[simpy.Event, Any]] = []
        self.arrivals: Agenda[Flow] = Agenda()
        self.stepped: object = None  # a collective whose rank 0 has reached a step, for whoever looks after an instant
        self.after_share: list[Callable[[float], None]] = []
        self._pauses: Agenda[tuple[Pausing, int]] = Agenda()
        self._endings = Endings()
        self._sharing = sharing
        self._started: list[Flow] = []
        self._left: dict[Link, None] = {}  # links that have lost a flow and carry others
        self._num_instants = self._num_flows = 0

    @property
    def counts(self) -> Counts:
        return Counts(self._num_instants, self._num_flows, self._sharing.num_solves, self._sharing.num_levels)

    def latest(self, now_s: float) -> float:
        """Return the latest time that still counts as now; rounding must not split an instant."""
        return now_s + _SAME_INSTANT * abs(now_s)

    def next_s(self) -> float:
        """Return when the next thing happens, or infinity; never before now."""
        time_s = self._endings.next_s()
        for times in (self._pauses.times, self.arrivals.times):
            if times and times[0] < time_s:
                time_s = times[0]
        return time_s if time_s > self.now_s else self.now_s

    @property
    def is_pausing(self) -> bool:
        return bool(self._pauses.times)

    def on_the_way(self) -> Iterator[tuple[float, Flow]]:
        """Yield the messages on their way, and when each arrives at its links or ends."""
        yield from self.arrivals.items()
        yield from self._endings.items()

    def shift(self, seconds: float) -> None:
        """Let time pass in which nothing changes but the time. Nobody may pause."""
        self.now_s += seconds
        self.arrivals.shift(seconds)
        self._endings.shift(seconds)

    def tell(self, event: simpy.Event, value: Any = None) -> None:
        """Let SimPy know, as soon as its clock is here."""
        self.told.append((event, value))

    def post(self, flow: Flow) -> None:
        """Send a message: latency first, then the wire."""
        self.arrivals.add(self.now_s + flow.path.latency_s, flow)

    def pause(self, until_s: float, who: Pausing, rank: int) -> None:
        """Call `resume(rank)` at a later time."""
        self._pauses.add(until_s, (who, rank))

    def start(self, flow: Flow) -> None:
        """Put a message on its links; over no link, or with no bytes, it has ended."""
        links = flow.path.links
        if not links or not flow.num_bytes:
            flow.sender.ended(flow)
            return
        flow.since_s = self.now_s
        for link in links:
            link.flows[flow] = None
        self._started.append(flow)
        self._num_flows += 1

    def play_instant(self, now_s: float) -> None:
        """Do everything that is due by now, until nothing more follows from it; then share the links."""
        self.now_s = now_s
        self._num_instants += 1
        latest_s = now_s + _SAME_INSTANT * abs(now_s)
        endings, pauses, arrivals = self._endings, self._pauses, self.arrivals
        while True:
            if endings.times and endings.times[0] <= latest_s:
                for flow in endings.take(latest_s):
                    self._end(flow)
            elif pauses.times and pauses.times[0] <= latest_s:
                for who, rank in pauses.take(latest_s):
                    who.resume(rank)
            elif arrivals.times and arrivals.times[0] <= latest_s:
                for flow in arrivals.take(latest_s):
                    self.start(flow)
            else:
                break
        if self._started or self._left:
            self._share()

    def _end(self, flow: Flow) -> None:
        num_bytes = flow.num_bytes
        for link in flow.path.links:
            flows = link.flows
            del flows[flow]
            link.carried_bytes += num_bytes
            if flows:
                self._left[link] = None
        flow.sender.ended(flow)

    def _share(self) -> None:
        now_s = self.now_s
        changed = self._sharing.share(now_s, self._started, self._left)
        self._started, self._left = [], {}
        for flow in changed:
            self._endings.expect(flow, now_s + flow.left_bytes / flow.bytes_per_s)
        for look in self.after_share:
            look(now_s)
