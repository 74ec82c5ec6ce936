"""What an engine reports: steps of ranks, messages in flight, rates of flows, counts of work, and what is stuck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

LinkName = Callable[[int], str]

_SAME_RATE = 1e-12  # relative
SAME_INSTANT = 1e-13  # relative: what happens closer together than this is one instant
NOT_ENTERED = "has not entered its collective, for which somebody waits"


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


class MessageInFlight(NamedTuple):
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

    def in_flight(self) -> list[MessageInFlight]:
        """Return the messages that have started and are not over."""


class Stuck(NamedTuple):
    """A rank of a collective at a step, or a message of none (both None), and what it waits for, in words."""

    rank: int | None
    step: int | None
    waits_for: str

    def __str__(self) -> str:
        if self.rank is None:
            return self.waits_for
        where = "" if self.step is None else f" at step {self.step}"
        return f"rank {self.rank}{where} {self.waits_for}"


def waits_for_rank(other: int, step: int) -> str:
    """Return that a rank waits for another one, which is at a step or, at -1, has not entered."""
    return f"waits for rank {other}, which {'has not entered' if step < 0 else f'is at step {step}'}"
