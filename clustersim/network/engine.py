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
    """Plays messages and collectives up to where it is told; `told` are the events that SimPy has to fire."""

    notifications: list[tuple[simpy.Event, Any]]
    now_s: float
    collectives: dict[Collective, EngineRanks]

    @property
    def counts(self) -> Counts: ...
    @property
    def has_skipped(self) -> bool:
        """Whether what went on as before has not been played again."""

    @property
    def num_flows(self) -> int:
        """Messages on their way, those included that have yet to start."""

    @property
    def is_stale(self) -> bool:
        """Whether links are still to be shared, since somebody has acted."""

    def next_s(self) -> float:
        """Return when the next thing happens, or infinity; never before now."""

    def play(self, now_s: float, until_s: float) -> None:
        """Play what is due now, and on up to something to tell, but not to `until_s`; not too much at a time."""

    def send(self, sent: Sent, src: int, dst: int, cap_bytes_per_s: float | None) -> None: ...
    def add(self, sent: Sent, node: int) -> None: ...
    def send_together(self, sent: SentTogether, src: np.ndarray, dst: np.ndarray) -> None: ...
    def send_queued(
        self, queue: CopyQueue, pairs: Sequence[int], num_bytes: Sequence[float], start_s: Sequence[float]
    ) -> None: ...
    def cancel(self, sent: Sent) -> float:
        """Take a message off its way; return the share of its bytes that it has moved."""

    def set_rate(self, link: int, bytes_per_s: float) -> None: ...
    def begin(self, collective: Collective) -> EngineRanks: ...
    def settle(self, collective: Collective, end_s: np.ndarray, links: np.ndarray, carried_bytes: np.ndarray) -> None:
        """Take a collective that is alone to its end, its ranks at their times [num_ranks]."""

    def skip(
        self, collective: Collective, step: int, reached_s: np.ndarray, links: np.ndarray, carried_bytes: np.ndarray
    ) -> None:
        """Take a collective that is alone to a step, to which each rank comes at its time [num_ranks]."""

    def carried_bytes(self) -> np.ndarray:
        """Return the bytes that the links of the topology have carried [num_links], in messages that are off them."""

    def moving_bytes(self, now_s: float) -> np.ndarray:
        """Return the bytes that the links of the topology have carried by a time [num_links], in messages on them."""

    def stuck(self, link_name: LinkName) -> list[Stuck]:
        """Return who waits, if nothing can happen any more."""

    def watch(self, look: Callable[[float], None]) -> None:
        """Call `look(time_s)` after every share of the links from now on."""

    def flows(self) -> list[FlowRate]:
        """Return the flows that are on the wire."""
