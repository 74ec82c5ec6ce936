"""The protocol of network engines: `PythonEngine` on Python objects and `NumbaEngine` on tables, with equal times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import simpy

from clustersim.network.collective import Collective
from clustersim.network.copy_queue import CopyQueue
from clustersim.network.progress import Counts, EngineRanks, FlowRate, LinkName, Stuck
from clustersim.network.transfer import Sent, SentTogether


class Engine(Protocol):
    """Simulates messages and collectives up to a given time; SimPy has to fire the events in `notifications`."""

    notifications: list[tuple[simpy.Event, Any]]
    now_s: float
    collectives: dict[Collective, EngineRanks]

    @property
    def counts(self) -> Counts: ...
    @property
    def has_skipped(self) -> bool:
        """Whether repeated steps were extrapolated instead of simulated."""

    @property
    def num_flows(self) -> int:
        """Messages in flight, including those that have yet to start."""

    @property
    def is_stale(self) -> bool:
        """Whether links have to be shared, since a process has acted."""

    def next_s(self) -> float:
        """Return when the next thing happens, or infinity; never before now."""

    def play(self, now_s: float, until_s: float) -> None:
        """Simulate what is due now and a limited part of what follows, to the next notification or before `until_s`."""

    def send(self, sent: Sent, src: int, dst: int, cap_bytes_per_s: float | None) -> None: ...
    def add(self, sent: Sent, node: int) -> None: ...
    def send_together(self, sent: SentTogether, src: np.ndarray, dst: np.ndarray) -> None: ...
    def send_queued(
        self, queue: CopyQueue, pairs: Sequence[int], num_bytes: Sequence[float], start_s: Sequence[float]
    ) -> None: ...
    def cancel(self, sent: Sent) -> float:
        """Take a message out; return the share of its bytes that it has moved."""

    def set_rate(self, link: int, bytes_per_s: float) -> None: ...
    def begin(self, collective: Collective) -> EngineRanks: ...
    def settle(self, collective: Collective, end_s: np.ndarray, links: np.ndarray, carried_bytes: np.ndarray) -> None:
        """Take an uncontended collective to its end, its ranks at their times [num_ranks]."""

    def skip(
        self, collective: Collective, step: int, reached_s: np.ndarray, links: np.ndarray, carried_bytes: np.ndarray
    ) -> None:
        """Take an uncontended collective to a step, which each rank reaches at its time [num_ranks]."""

    def carried_bytes(self) -> np.ndarray:
        """Return the bytes that the links of the topology have carried [num_links], in messages that have left them."""

    def moving_bytes(self, now_s: float) -> np.ndarray:
        """Return the bytes that the links of the topology have carried by a time [num_links], in messages on them."""

    def stuck(self, link_name: LinkName) -> list[Stuck]:
        """Return what waits, if nothing can happen any more."""

    def watch(self, look: Callable[[float], None]) -> None:
        """Call `look(time_s)` after every share of the links from now on."""

    def flows(self) -> list[FlowRate]:
        """Return the flows that are on the links."""
