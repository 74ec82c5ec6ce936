"""What an engine reports: steps of ranks, messages in flight, rates of flows, counts of work, and what is stuck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

LinkName = Callable[[int], str]

_SAME_RATE = 1e-12  # relative
SAME_INSTANT = 1e-13  # relative: what is closer together than this is one instant
NOT_ENTERED = "has not entered its collective, for which a process waits"


def latest(now_s: float) -> float:
    """Return the latest time that still counts as now; rounding must not split an instant."""
    return now_s + SAME_INSTANT * abs(now_s)


class Counts(NamedTuple):
    """Work done so far: instants simulated, flows started, shares solved and link levels computed in them."""

    instants: int
    flows: int
    solves: int
    levels: int


class FlowRate(NamedTuple):
    """A flow at this time: the numbers of its links, its weight and its rate. Links of this flow alone are negative."""

    links: tuple[int, ...]
    weight: float
    bytes_per_s: float


class MessageInFlight(NamedTuple):
    """A message of a collective: its step, its number there, when it leaves the links or is added, and which of both.

    It is held back if others on its links leave it less than the rate of the narrowest one.
    """

    step: int
    message: int
    end_s: float
    is_added: bool
    is_held_back: bool


def is_held_back(bytes_per_s: float, narrowest_bytes_per_s: float) -> bool:
    """Return whether a rate is less than that of an uncontended message."""
    return bytes_per_s < narrowest_bytes_per_s * (1 - _SAME_RATE)


class EngineRanks(Protocol):
    """The ranks of one collective, on the engine that simulates them."""

    def enter(self, ranks: Sequence[int], times_s: Sequence[float]) -> None:
        """Let ranks enter, each at its time, or now where that is past."""

    def step_of(self, rank: int) -> int:
        """Return the step that a rank has reached: -1 before it enters, the number of steps when it is done."""

    def expect(self, rank: int, step: int) -> None:
        """Notify the collective when a rank has reached a step."""

    def steps_of(self, ranks: Sequence[int]) -> list[int]:
        """Return the steps that ranks have reached [len(ranks)]."""

    def expect_each(self, ranks: Sequence[int], step: int) -> None:
        """Notify the collective when each of some ranks has reached a step."""

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of each rank [num_ranks] the step it has reached, when, and the one it communicates in, or -1."""

    def in_flight(self) -> list[MessageInFlight]:
        """Return the messages that have started and have not ended."""


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
