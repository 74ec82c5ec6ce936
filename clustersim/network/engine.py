"""What plays a network: the plain side, in Python objects, or the compiled side, on tables. The times are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import simpy

if TYPE_CHECKING:
    from clustersim.network.collective import Collective
    from clustersim.network.copy_queue import CopyQueue
    from clustersim.network.stuck import LinkName, Stuck
    from clustersim.network.transfer import Sent, SentTogether

_SAME_RATE = 1e-12  # relative
SAME_INSTANT = 1e-13  # relative: what happens closer together than this is one instant


def latest(now_s: float) -> float:
    """Return the latest time that still counts as now; rounding must not split an instant."""
    return now_s + SAME_INSTANT * abs(now_s)


class Counts(NamedTuple):
    """How much work has been done: instants played, flows started, shares solved and link levels computed in them."""

    instants: int
    flows: int
    solves: int
    levels: int


class FlowRate(NamedTuple):
    """A flow as it is now: the numbers of its links, its weight and its rate. Links that only it has are negative."""

    links: tuple[int, ...]
    weight: float
    bytes_per_s: float


class OnTheWay(NamedTuple):
    """A message of a collective: its step, its number there, when it leaves the wire or is added, and which of both.

    It is held back if others on its links leave it less than the narrowest one has.
    """

    step: int
    message: int
    end_s: float
    is_added: bool
    is_held_back: bool


def is_held_back(bytes_per_s: float, narrowest_bytes_per_s: float) -> bool:
    """Return whether a rate is less than a message would have alone."""
    return bytes_per_s < narrowest_bytes_per_s * (1 - _SAME_RATE)


class EngineRanks(Protocol):
    """The ranks of one collective, on the side that plays them."""

    def enter(self, ranks: Sequence[int], times_s: Sequence[float]) -> None:
        """Let ranks take part, each from its time on, or from now on where that is past."""

    def step_of(self, rank: int) -> int:
        """Return the step that a rank has come to: -1 before it enters, the number of steps when it is done."""

    def expect(self, rank: int, step: int) -> None:
        """Tell the collective when a rank has come to a step."""

    def steps_of(self, ranks: Sequence[int]) -> list[int]:
        """Return the steps that ranks have come to [len(ranks)]."""

    def expect_each(self, ranks: Sequence[int], step: int) -> None:
        """Tell the collective when each of some ranks has come to a step."""

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of each rank [num_ranks] the step it has come to, when, and the one it sends and receives in or -1."""

    def on_the_way(self) -> list[OnTheWay]:
        """Return the messages that have started and are not over."""


class Side(Protocol):
    """Plays messages and collectives up to where it is told; `told` are the events that SimPy has to fire."""

    told: list[tuple[simpy.Event, Any]]
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
    def convey(
        self, conveyor: CopyQueue, pairs: Sequence[int], num_bytes: Sequence[float], start_s: Sequence[float]
    ) -> None: ...
    def call_off(self, sent: Sent) -> float:
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
