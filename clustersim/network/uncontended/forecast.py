"""When the ranks of a collective are done that meets nobody else on the network, without playing it.

A message that is alone on its links ends a latency and bytes / narrowest rate after both its ends have come,
and a rank goes on when its own messages have ended. So the times of all ranks at one step follow from those
at the step before, whatever their entries and pauses. Where steps repeat, nobody pauses and all ranks have
gone on by one and the same time, they do so again, and the rest of the repeats is one multiplication.

A forecast is given only if no message of the collective holds back another (see `crowding`).
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
_STEPS_TRIED = 16  # at once, when a step is looked for
_MOST_SETTINGS = 4  # of a topology that outlines are kept for


class OutlineCache:
    """What is known of schedules between nodes of one topology at given costs and rates.

    What is known of a schedule goes when the schedule goes.
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
    """A step, when each rank comes to it [num_ranks], and what the links have yet to carry from there on [num_used]."""

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
        """Return how a collective among these nodes [num_ranks] goes on from a positions, or None if that is not known.

        Every rank has entered or has its time to enter; rank i pauses `delay_s[i, step]` before a step. `awaited`
        are ranks and steps [num_awaited, 2], none before the step that its rank has come to.
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
        """Return the last step that all ranks come to before a time, beyond where they stand; None if there is none.

        The collective must be one that `forecast` knows all of.
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
