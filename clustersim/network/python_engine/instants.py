"""The event loop of the Python engine: flows start, move and end without a SimPy event for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import simpy

from clustersim.network.flow import INFINITE, Flow, Link
from clustersim.network.progress import Counts, latest
from clustersim.network.python_engine.event_queue import EventQueue, FlowEndings


class Pausing(Protocol):
    """Calls ranks back after a pause."""

    def resume(self, rank: int) -> None: ...


class Sharing(Protocol):
    """A way of sharing links. `num_solves` and `num_levels` count the work done."""

    num_solves: int
    num_levels: int

    def share(
        self, now_s: float, started: Iterable[Flow], left: Iterable[Link], rerated: Iterable[Link] = ()
    ) -> list[Flow]:
        """Let flows start, after others have left links and links have new rates; return the flows whose rates are new.

        Started flows are on their links already, and others have left them. `Flow.left_bytes` is brought up to date
        for flows whose rate changes. A rate may be 0.
        """


class InstantLoop:
    """Simulates one instant after another; what SimPy has to fire is collected in `notifications`.

    Within an instant flows end first, then ranks go on, and messages reach their links. That repeats until nothing
    more is due. Then the links are shared once.
    """

    def __init__(self, sharing: Sharing) -> None:
        self.now_s = 0.0
        self.notifications: list[tuple[simpy.Event, Any]] = []
        self.arrivals: EventQueue[Flow] = EventQueue()
        self.after_share: list[Callable[[float], None]] = []
        self.pauses: EventQueue[tuple[Pausing, int]] = EventQueue()
        self._endings = FlowEndings()
        self._sharing = sharing
        self._started: list[Flow] = []
        self._left: dict[Link, None] = {}  # links that have lost a flow and carry others
        self._rerated: dict[Link, None] = {}  # links that have a new rate
        self._is_stale = False  # whether flows or rates have changed since links were shared
        self._num_instants = self._num_flows = 0

    @property
    def is_stale(self) -> bool:
        """Whether flows or rates have changed since links were shared."""
        return self._is_stale

    @property
    def counts(self) -> Counts:
        return Counts(self._num_instants, self._num_flows, self._sharing.num_solves, self._sharing.num_levels)

    def next_s(self) -> float:
        """Return when the next thing happens, or infinity; never before now."""
        if self._is_stale or self._started:
            return self.now_s
        time_s = self._endings.next_s()
        for times in (self.pauses.times, self.arrivals.times):
            if times and times[0] < time_s:
                time_s = times[0]
        return time_s if time_s > self.now_s else self.now_s

    def in_flight(self) -> Iterator[tuple[float, Flow]]:
        """Yield the messages in flight, and when each arrives at its links or ends."""
        yield from self.arrivals.items()
        yield from self._endings.items()

    def moving(self) -> Iterator[Flow]:
        """Yield the messages that move on their links since these were last shared."""
        return (flow for _, flow in self._endings.items())

    def clear(self) -> None:
        """Remove all messages and pauses: nothing is due any more."""
        for _, flow in self._endings.items():
            for link in flow.path.links:
                link.flows.pop(flow, None)
        self.arrivals, self.pauses, self._endings = EventQueue(), EventQueue(), FlowEndings()

    def post(self, flow: Flow, start_s: float) -> float:
        """Send a message at a time that is not before now, latency first; return when it reaches its links."""
        arrives_s = start_s + flow.path.latency_s
        self.arrivals.add(arrives_s, flow)
        return arrives_s

    def cancel(self, flow: Flow, arrives_s: float) -> float:
        """Remove a message that reached or reaches its links at a time; return the bytes that it has moved."""
        links = flow.path.links
        if not links or flow not in links[0].flows:
            self.arrivals.remove(arrives_s, flow)
            return 0.0
        moved_bytes = flow.moved_bytes(self.now_s)
        self._endings.forget(flow)
        self._leave(flow, moved_bytes)
        self._is_stale = True
        return moved_bytes

    def set_rate(self, link: Link, number: int, bytes_per_s: float) -> None:
        """Change the rate of a link, by its number, from now on."""
        link.set_rate(number, bytes_per_s)
        self._rerated[link] = None
        self._is_stale = True

    def pause(self, until_s: float, ranks: Pausing, rank: int) -> None:
        """Call `resume(rank)` at a later time."""
        self.pauses.add(until_s, (ranks, rank))

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
        self._is_stale = False
        latest_s = latest(now_s)
        endings, pauses, arrivals = self._endings, self.pauses, self.arrivals
        ends, resumes, starts = endings.times, pauses.times, arrivals.times
        while True:
            if ends and ends[0] <= latest_s:
                for flow in endings.take(latest_s):
                    self._leave(flow, flow.num_bytes)
                    flow.sender.ended(flow)
            elif resumes and resumes[0] <= latest_s:
                for ranks, rank in pauses.take(latest_s):
                    ranks.resume(rank)
            elif starts and starts[0] <= latest_s:
                for flow in arrivals.take(latest_s):
                    self.start(flow)
            else:
                break
        if self._started or self._left or self._rerated:
            self._share()

    def _leave(self, flow: Flow, moved_bytes: float) -> None:
        for link in flow.path.links:
            flows = link.flows
            del flows[flow]
            link.carried_bytes += moved_bytes
            if flows:
                self._left[link] = None

    def _share(self) -> None:
        now_s = self.now_s
        changed = self._sharing.share(now_s, self._started, self._left, self._rerated)
        self._started, self._left = [], {}
        if self._rerated:
            self._rerated = {}
        for flow in changed:
            rate = flow.bytes_per_s
            self._endings.expect(flow, now_s + flow.left_bytes / rate if rate > 0 else INFINITE)
        for look in self.after_share:
            look(now_s)
