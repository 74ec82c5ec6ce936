"""Queues of copies: messages between the same nodes again and again, without an event for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import simpy

from clustersim.network.flow import Flow


class CopyEngine(Protocol):
    """What a queue of copies needs of the engine that simulates them."""

    notifications: list[tuple[simpy.Event, Any]]

    def send_queued(
        self, queue: CopyQueue, pairs: Sequence[int], num_bytes: Sequence[float], start_s: Sequence[float]
    ) -> None: ...


class CopyNetwork(Protocol):
    """What a queue of copies needs of its network."""

    env: simpy.Environment

    @property
    def engine(self) -> CopyEngine: ...
    def before_acting(self) -> None: ...
    def after_acting(self) -> None: ...
    def note_sent(self, num_messages: int) -> None: ...


class QueuedCopy(NamedTuple):
    """A copy: over which pair, its bytes, the earliest time to start, and a key."""

    pair: int
    num_bytes: float
    start_s: float
    what: Hashable


class CopyQueue:
    """Messages between pairs of nodes [num_pairs], on lanes that each carry one after another, in their order.

    The pairs p, p + `num_lanes`, p + 2 `num_lanes` ... share a lane. `on_arrival(what, pairs)` is called on SimPy's
    clock with the pairs on which a copy with the key `what` arrives, once for those of one time.
    """

    def __init__(
        self,
        network: CopyNetwork,
        src: np.ndarray,
        dst: np.ndarray,
        num_lanes: int,
        on_arrival: Callable[[Any, list[int]], None],
    ):
        self.src, self.dst = src, dst
        self._network, self._on_arrival = network, on_arrival
        self._lanes: list[deque[QueuedCopy]] = [deque() for _ in range(num_lanes)]
        self._event: simpy.Event | None = None  # of the arrivals at this time
        self._arrived: list[int] = []

    def send(self, pairs: Sequence[int], num_bytes: float, start_s: Sequence[float], what: Hashable) -> None:
        """Send a message over each of some pairs, at its time or after those before it on its lane."""
        free = []
        for pair, time_s in zip(pairs, start_s, strict=True):
            lane = self._lanes[pair % len(self._lanes)]
            lane.append(QueuedCopy(pair, num_bytes, time_s, what))
            if len(lane) == 1:
                free.append(lane[0])
        if free:
            self._set_off(free)

    def ended(self, flow: Flow) -> None:
        """Note that a message has arrived."""
        self.arrived([flow.message])

    def arrived(self, pairs: list[int]) -> None:
        """Note that the messages of pairs have arrived."""
        if self._event is None or self._event.triggered:
            self._event, self._arrived = self._network.env.event(), []
            self._event.callbacks.append(self._on_arrivals)
            self._network.engine.notifications.append((self._event, self._arrived))
        self._arrived += pairs

    def _on_arrivals(self, event: simpy.Event) -> None:
        """Start the next copies on the lanes of those that have arrived, and call back with these."""
        assert isinstance(event.value, list)
        arrived: dict[Hashable, list[int]] = {}
        following = []
        for pair in event.value:
            lane = self._lanes[pair % len(self._lanes)]
            arrived.setdefault(lane.popleft().what, []).append(pair)
            if lane:
                following.append(lane[0])
        if following:
            self._set_off(following)
        for what, pairs in arrived.items():
            self._on_arrival(what, pairs)

    def _set_off(self, loads: list[QueuedCopy]) -> None:
        network = self._network
        network.before_acting()
        network.note_sent(len(loads))
        pairs, num_bytes, start_s, _ = zip(*loads, strict=True)
        network.engine.send_queued(self, pairs, num_bytes, start_s)
        network.after_acting()
