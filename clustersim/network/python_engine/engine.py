"""The network engine on Python objects: ready at once, and fast enough for small work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import simpy

from clustersim.network.collective import Collective
from clustersim.network.copy_queue import CopyQueue
from clustersim.network.flow import INFINITE, Flow, Path
from clustersim.network.paths import BYTES_MOVED_PER_ADDED, Costs, Paths
from clustersim.network.progress import Counts, EngineRanks, FlowRate, LinkName, Stuck, latest
from clustersim.network.python_engine.fair_share import SHARING
from clustersim.network.python_engine.instants import InstantLoop
from clustersim.network.python_engine.plans import Plans
from clustersim.network.python_engine.ranks import PythonRanks
from clustersim.network.python_engine.stuck import find_stuck
from clustersim.network.transfer import Sent, SentTogether
from clustersim.topology import Topology

_MOST_INSTANTS = 1000  # in one call, after which the network may move to the other engine


class PythonEngine:
    """Simulates messages and collectives on Python objects."""

    def __init__(self, topology: Topology, costs: Costs, adds: bool, sharing: str):
        self.loop = InstantLoop(SHARING[sharing]())
        self.paths = Paths(topology, costs)
        self.collectives: dict[Collective, EngineRanks] = {}
        self._plans = Plans(self.paths, costs.eager_bytes)
        self.settled_bytes = np.zeros(len(topology.links))  # in collectives without simulated messages
        self._adds = adds

    @property
    def notifications(self) -> list[tuple[simpy.Event, Any]]:
        return self.loop.notifications

    @notifications.setter
    def notifications(self, notifications: list[tuple[simpy.Event, Any]]) -> None:
        self.loop.notifications = notifications

    @property
    def now_s(self) -> float:
        return self.loop.now_s

    @now_s.setter
    def now_s(self, now_s: float) -> None:
        self.loop.now_s = now_s

    @property
    def counts(self) -> Counts:
        return self.loop.counts

    @property
    def has_skipped(self) -> bool:
        """Whether repeated steps were extrapolated instead of simulated: never."""
        return False

    @property
    def num_flows(self) -> int:
        """Messages in flight, including those that have yet to start."""
        return sum(1 for _ in self.loop.in_flight())

    @property
    def is_stale(self) -> bool:
        """Whether links have to be shared, since a process has acted."""
        return self.loop.is_stale

    def next_s(self) -> float:
        """Return when the next thing happens, or infinity; never before now."""
        return self.loop.next_s()

    def play(self, now_s: float, until_s: float) -> None:
        """Simulate what is due now, and on to the next notification, but not to `until_s`."""
        loop = self.loop
        if loop.next_s() <= latest(now_s):
            loop.play_instant(max(now_s, loop.now_s))
        for _ in range(_MOST_INSTANTS):
            if loop.notifications or (time_s := loop.next_s()) >= until_s:
                return
            loop.play_instant(time_s)

    def send(self, sent: Sent, src: int, dst: int, cap_bytes_per_s: float | None) -> None:
        """Send a message between nodes, over a private link where it has a cap."""
        paths = self.paths
        path = paths.between(src, dst) if cap_bytes_per_s is None else paths.capped(src, dst, cap_bytes_per_s)
        self._post(sent, path, 1.0)

    def add(self, sent: Sent, node: int) -> None:
        """Add a gradient in a node's memory."""
        self._post(sent, self.paths.adding(node), BYTES_MOVED_PER_ADDED)

    def send_together(self, sent: SentTogether, src: np.ndarray, dst: np.ndarray) -> None:
        """Send many messages between nodes [num_messages], each at its time."""
        ends = zip(src.tolist(), dst.tolist(), strict=True)
        rows = zip(ends, sent.num_bytes.tolist(), sent.weight.tolist(), sent.start_s.tolist(), strict=True)
        for number, (both, num_bytes, weight, start_s) in enumerate(rows):
            self.loop.post(Flow(self.paths.between(*both), num_bytes, weight, sent, number), start_s)

    def send_queued(
        self, queue: CopyQueue, pairs: Sequence[int], num_bytes: Sequence[float], start_s: Sequence[float]
    ) -> None:
        """Send messages [num_messages] over pairs of a queue, each at its time or now where that is past."""
        for pair, size, time_s in zip(pairs, num_bytes, start_s, strict=True):
            path = self.paths.between(int(queue.src[pair]), int(queue.dst[pair]))
            self.loop.post(Flow(path, size, 1.0, queue, pair), max(time_s, self.loop.now_s))

    def cancel(self, sent: Sent) -> float:
        """Take a message out; return the share of its bytes that it has moved."""
        flow = sent.carrier
        moved_bytes = self.loop.cancel(flow, sent.start_s + flow.path.latency_s)
        return moved_bytes / flow.num_bytes if moved_bytes else 0.0

    def set_rate(self, link: int, bytes_per_s: float) -> None:
        """Change the payload rate of a link from now on."""
        self.loop.set_rate(self.paths.link(link), link, bytes_per_s)

    def begin(self, collective: Collective) -> PythonRanks:
        """Prepare the ranks of a collective."""
        ranks = PythonRanks(collective, self.loop, self.paths, self._plans, self._adds)
        self.collectives[collective] = ranks
        return ranks

    def settle(self, collective: Collective, end_s: np.ndarray, links: np.ndarray, carried_bytes: np.ndarray) -> None:
        """Take an uncontended collective to its end, its ranks at their times [num_ranks]."""
        self.loop.clear()
        self.settled_bytes[links] += carried_bytes
        self.ranks()[collective].finish(end_s)

    def skip(
        self, collective: Collective, step: int, reached_s: np.ndarray, links: np.ndarray, carried_bytes: np.ndarray
    ) -> None:
        """Take an uncontended collective to a step, which each rank reaches at its time [num_ranks]."""
        self.loop.clear()
        self.settled_bytes[links] += carried_bytes
        self.ranks()[collective].skip(step, reached_s)

    def carried_bytes(self) -> np.ndarray:
        """Return the bytes that the links of the topology have carried [num_links], in messages that have left them."""
        carried = self.settled_bytes.copy()
        for number, link in self.paths.links.items():
            carried[number] += link.carried_bytes
        return carried

    def moving_bytes(self, now_s: float) -> np.ndarray:
        """Return the bytes that the links of the topology have carried by a time [num_links], in messages on them."""
        moving = np.zeros(len(self.settled_bytes))
        for number, link in self.paths.links.items():
            moving[number] = sum(flow.moved_bytes(now_s) for flow in link.flows)
        return moving

    def flows(self) -> list[FlowRate]:
        """Return the flows that are on the links."""
        return [
            FlowRate(tuple(n for link in flow.path.links for n in link.rates), flow.weight, flow.bytes_per_s)
            for flow in self.on_links()
        ]

    def on_links(self) -> dict[Flow, None]:
        """Return the flows on the links of the topology, then those on private links only."""
        on_shared = (flow for link in self.paths.links.values() for flow in link.flows)
        return dict.fromkeys([*on_shared, *self.loop.moving()])

    def watch(self, look: Callable[[float], None]) -> None:
        """Call `look(time_s)` after every share of the links from now on."""
        self.loop.after_share.append(look)

    def stuck(self, link_name: LinkName) -> list[Stuck]:
        """Return what waits, if nothing can happen any more."""
        if self.loop.notifications or self.loop.next_s() < INFINITE:
            return []
        return find_stuck(self.ranks(), self.on_links(), link_name)

    def ranks(self) -> dict[Collective, PythonRanks]:
        """Return the ranks of the collectives in progress."""
        return {known: ranks for known, ranks in self.collectives.items() if isinstance(ranks, PythonRanks)}

    def _post(self, sent: Sent, path: Path, moved_per_byte: float) -> None:
        flow = Flow(path, sent.num_bytes * moved_per_byte, sent.weight, sent)
        sent.carrier = flow
        self.loop.post(flow, sent.start_s)
