"""The steps of schedules, prepared for simulation, and a cache of those that repeat."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.collectives.schedule import Schedule, Step
from clustersim.network.paths import Paths

_MOST_MESSAGES = 1 << 17  # in patterns that are kept, and in plans


class Pattern:
    """The messages of a step without their bytes: sources, destinations and paths. A message has a number in the step.

    `own` [num_ranks] are the messages of each rank, sent or received, each with the rank at its other end.
    """

    __slots__ = ("dst", "own", "paths", "src")

    def __init__(self, paths: Paths, nodes: np.ndarray, columns: Step, wait_s: float | None):
        self.src: list[int] = columns.src.tolist()
        self.dst: list[int] = columns.dst.tolist()
        ends = zip(nodes[columns.src].tolist(), nodes[columns.dst].tolist(), strict=True)
        if wait_s is None:
            self.paths = [paths.between(*both) for both in ends]
        else:
            self.paths = [paths.relayed(*both, wait_s) for both in ends]
        self.own: list[list[tuple[int, int]]] = [[] for _ in range(len(nodes))]
        for number, (src, dst) in enumerate(zip(self.src, self.dst, strict=True)):
            self.own[src].append((number, dst))
            if dst != src:
                self.own[dst].append((number, src))


class StepPlan(NamedTuple):
    """A step prepared for simulation: its pattern, and of each message its bytes, reduction and protocol.

    `eager` says which messages do not wait for their receiver; None where none is eager.
    """

    pattern: Pattern
    num_bytes: list[float]
    reduce: list[bool]
    eager: list[bool] | None


class Plans:
    """The steps of schedules between some nodes. What repeats, in one schedule or the next, is prepared once.

    The key of a pattern has senders, receivers and waits. Plans and patterns up to a number of messages are kept:
    a long schedule repeats few patterns in many steps.
    """

    def __init__(self, paths: Paths, eager_bytes: float = 0.0):
        self._paths = paths
        self._eager_bytes = eager_bytes
        self._patterns: dict[Hashable, Pattern] = {}
        self._waits: WeakKeyDictionary[Schedule, dict[bytes, float | None]] = WeakKeyDictionary()
        self._num_messages = 0
        self._num_planned = 0
        self._kept: WeakKeyDictionary[Schedule, dict[tuple[bytes, Hashable], StepPlan]] = WeakKeyDictionary()

    def kept(self, schedule: Schedule) -> dict[tuple[bytes, Hashable], StepPlan]:
        """Return the steps that are kept of a schedule, by nodes and pattern; they are dropped with the schedule."""
        return self._kept.setdefault(schedule, {})

    def step(self, schedule: Schedule, nodes: np.ndarray, number: int) -> StepPlan:
        """Prepare a step of a schedule between these nodes [num_ranks]."""
        columns = schedule.step(number)
        plan = StepPlan(
            self._pattern(nodes, columns, self._wait_s(schedule, nodes)),
            columns.num_bytes.tolist(),
            columns.reduce.tolist(),
            self._eager(columns),
        )
        self._num_planned += len(columns.src)
        if self._num_planned > _MOST_MESSAGES:
            for kept in self._kept.values():
                kept.clear()
            self._num_planned = len(columns.src)
        self.kept(schedule)[nodes.tobytes(), schedule.pattern(number)] = plan
        return plan

    def _eager(self, columns: Step) -> list[bool] | None:
        """Return which messages do not wait for their receiver; a message of a rank to itself never waits."""
        if not self._eager_bytes:
            return None
        eager = (columns.num_bytes <= self._eager_bytes) & (columns.src != columns.dst)
        return eager.tolist() if eager.any() else None

    def _wait_s(self, schedule: Schedule, nodes: np.ndarray) -> float | None:
        known = self._waits.setdefault(schedule, {})
        key = nodes.tobytes()
        if key not in known:
            known[key] = self._paths.step_wait_s(schedule, nodes)
        return known[key]

    def _pattern(self, nodes: np.ndarray, columns: Step, wait_s: float | None) -> Pattern:
        key = nodes.tobytes(), columns.src.tobytes(), columns.dst.tobytes(), wait_s
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = Pattern(self._paths, nodes, columns, wait_s)
            self._num_messages += len(pattern.src)
            if self._num_messages > _MOST_MESSAGES:
                self._patterns.clear()
                self._num_messages = len(pattern.src)
            self._patterns[key] = pattern
        return pattern
