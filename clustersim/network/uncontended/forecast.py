"""Finish times of an uncontended collective, in closed form.

An uncontended message ends a latency and bytes / narrowest rate after both its ends have reached its step, and a
rank goes on when its own messages have ended. So the times of all ranks at one step follow from those at the step
before, whatever their entries and pauses. If steps repeat, no rank pauses and all ranks have advanced by the same
time, they do so again: the rest of the repeats is one multiplication.

A forecast is given only if no message of the collective holds back another (see `shared_links`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from clustersim.collectives.schedule import Schedule
from clustersim.network.paths import Costs, payload_rates
from clustersim.network.uncontended.outline import ScheduleOutline, outline
from clustersim.network.uncontended.play import (
    NO_MESSAGES_IN_FLIGHT,
    MessagesInFlight,
    RankPositions,
    UncontendedPlay,
    UncontendedTimes,
)
from clustersim.network.uncontended.step import UncontendedSteps
from clustersim.topology import Topology

_MOST_KEPT_MESSAGES = 1 << 17
_STEPS_TRIED = 16  # at once, in the search for a step
_MOST_SETTINGS = 4  # of a topology whose outlines are kept


class OutlineCache:
    """Outlines of schedules between nodes of one topology at given costs and rates.

    The outlines of a schedule are dropped with the schedule.
    """

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Schedule, dict[bytes, ScheduleOutline | None]] = WeakKeyDictionary()
        self._num_messages = 0

    def get(self, schedule: Schedule, nodes: np.ndarray, maker: UncontendedSteps) -> ScheduleOutline | None:
        """Return the outline of a schedule among nodes [num_ranks], or None where its steps are too many."""
        kept = self._known.setdefault(schedule, {})
        key = nodes.tobytes()
        if key not in kept:
            found = outline(schedule, nodes, maker)
            self._num_messages += 1 if found is None else found.num_messages
            if self._num_messages > _MOST_KEPT_MESSAGES:
                self._known.clear()
                self._num_messages = 0 if found is None else found.num_messages
                kept = self._known.setdefault(schedule, {})
            kept[key] = found
        return kept[key]


_OUTLINES: WeakKeyDictionary[Topology, Callable[..., OutlineCache]] = WeakKeyDictionary()


def _outlines_on(topology: Topology, *setting: Hashable) -> OutlineCache:
    """Return the cache that all networks over a topology with one setting share; the latest settings are kept."""
    if topology not in _OUTLINES:
        _OUTLINES[topology] = lru_cache(_MOST_SETTINGS)(lambda *setting: OutlineCache())
    return _OUTLINES[topology](*setting)


class PartialStep(NamedTuple):
    """A step, when each rank reaches it [num_ranks], and what the links carry from there to the end [num_used]."""

    step: int
    reached_s: np.ndarray
    left_bytes: np.ndarray


class UncontendedForecaster:
    """Forecasts collectives that are alone on a network."""

    def __init__(
        self,
        topology: Topology,
        costs: Costs,
        adds: bool,
        bytes_per_s: np.ndarray | None = None,
    ):
        """Payload rates of links may be given [num_links]; else they are those of the sheets times `efficiency`."""
        rates = payload_rates(topology, costs) if bytes_per_s is None else bytes_per_s
        self._maker = UncontendedSteps(topology, costs, adds, rates)
        self._outlines = _outlines_on(topology, costs, adds, sha256(rates.tobytes()).digest())

    def forecast(
        self,
        schedule: Schedule,
        nodes: np.ndarray,
        positions: RankPositions,
        delay_s: np.ndarray | None = None,
        awaited: ArrayLike = (),
    ) -> UncontendedTimes | None:
        """Return how a collective among these nodes [num_ranks] goes on from positions, or None if that is not known.

        Every rank has entered or has its time to enter; rank i pauses `delay_s[i, step]` before a step. `awaited`
        are ranks and steps [num_awaited, 2], none before the step that its rank has reached.
        """
        pairs = np.asarray(awaited, dtype=np.int64).reshape(-1, 2)
        known = self._outlines.get(schedule, nodes, self._maker)
        if known is None or not known.moves:
            return None
        if delay_s is not None and not delay_s.any():
            delay_s = None
        return UncontendedPlay(known, schedule.num_steps, positions, delay_s, pairs).result()

    def before(
        self, schedule: Schedule, nodes: np.ndarray, positions: RankPositions, delay_s: np.ndarray | None, time_s: float
    ) -> PartialStep | None:
        """Return the last step, after their positions, that all ranks reach before a time; None if there is none.

        `forecast` must know the whole collective.
        """
        all_ranks, found = np.arange(len(nodes)), None
        low, high = int(positions.reached_steps.max(initial=0)) + 1, schedule.num_steps
        while low < high:
            steps = np.unique(np.linspace(low, high - 1, _STEPS_TRIED).astype(np.int64))
            pairs = np.stack([np.tile(all_ranks, len(steps)), np.repeat(steps, len(nodes))], axis=1)
            times = self.forecast(schedule, nodes, positions, delay_s, pairs)
            if times is None:
                return None
            reached_s = times.reached_s.reshape(len(steps), len(nodes))
            num = int(np.count_nonzero(reached_s.max(axis=1) < time_s))
            if num:
                found = int(steps[num - 1]), reached_s[num - 1]
                low = found[0] + 1
            high = int(steps[num]) if num < len(steps) else high
        known = self._outlines.get(schedule, nodes, self._maker)
        if found is None or known is None:
            return None
        return PartialStep(*found, known.carried_bytes(found[0])[: len(known.links)])


__all__ = [
    "NO_MESSAGES_IN_FLIGHT",
    "MessagesInFlight",
    "PartialStep",
    "RankPositions",
    "UncontendedForecaster",
    "UncontendedTimes",
]
