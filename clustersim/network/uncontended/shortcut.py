"""The shortcut of a collective that is alone on the network: its ranks' times are computed, not simulated.

Other collectives may have been prepared, as long as no rank has entered them.

The engine stands still meanwhile. If a process acts, the engine simulates from there to that time and goes on. So the
shortcut changes only how long a simulation takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.collectives.schedule import Schedule
from clustersim.network.collective import Collective
from clustersim.network.engine import Engine
from clustersim.network.flow import INFINITE
from clustersim.network.progress import EngineRanks, latest
from clustersim.network.uncontended.forecast import (
    MessagesInFlight,
    RankPositions,
    UncontendedForecaster,
    UncontendedTimes,
)

_FEWEST_MESSAGES = 32  # below which it saves no time
_MOST_REFUSED = 2  # attempts for a schedule whose messages hold each other back
_FEWEST_TO_SKIP = 1 << 12  # messages between the positions of a collective and the time at which a process acts
_MOST_PASSED = 64  # opportunities in a row that are passed after failures


class _Awaited(NamedTuple):
    """The ranks that are waited for, the steps they are to reach, and when they do, in columns [num_awaited]."""

    time_s: np.ndarray
    ranks: np.ndarray
    steps: np.ndarray


_NOTHING_AWAITED = _Awaited(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class UncontendedShortcut:
    """Computes collectives that are alone, where that seems worth it: after failures, less and less often."""

    def __init__(self, make: Callable[[], UncontendedForecaster], is_eager: bool):
        """With eager messages, the positions of a collective are known only before any of them has begun."""
        self.next_s = INFINITE  # when the next awaited rank reaches its step
        self.num_taken = 0  # collectives computed to their end
        self._make = make
        self._is_eager = is_eager
        self._forecaster: UncontendedForecaster | None = None
        self._collective: Collective | None = None
        self._times: UncontendedTimes | None = None
        self._positions = RankPositions.entering(np.empty(0))
        self._awaited = _NOTHING_AWAITED  # not yet notified, in order of time
        self._has_changed = True  # a process has acted since it was tried
        self._num_failed = self._num_to_pass = 0  # of those that a process interrupted
        self._num_refused: WeakKeyDictionary[Schedule, int] = WeakKeyDictionary()

    @property
    def is_taken(self) -> bool:
        return self._times is not None

    def forget(self) -> None:
        """Drop what is known of links, whose rates have changed."""
        self._forecaster = None
        self._num_refused.clear()

    def take(self, engine: Engine) -> bool:
        """Compute the only collective with ranks in it, if all of it is known and nothing else moves."""
        if not self._has_changed:
            return False
        self._has_changed = False
        entered = (each for each in engine.collectives if each.num_entered)
        collective = next(entered, None)
        if collective is None or next(entered, None) is not None:
            return False
        ranks, schedule = engine.collectives[collective], collective.schedule
        if collective.num_entered < schedule.num_ranks or schedule.num_transfers() < _FEWEST_MESSAGES:
            return False
        if schedule.runs is not None:  # the outline of so many different steps takes as long as their simulation
            return False
        if self._num_refused.get(schedule, 0) == _MOST_REFUSED:
            return False
        if self._num_to_pass:
            self._num_to_pass -= 1
            return False
        positions = positions_of(collective, ranks, engine.num_flows)
        if positions is None or (self._is_eager and has_begun(ranks)):
            return False
        ranks_awaited, steps_awaited = collective.awaited()
        if self._forecaster is None:
            self._forecaster = self._make()
        pairs = np.stack([ranks_awaited, steps_awaited], axis=1)
        times = self._forecaster.forecast(schedule, collective.nodes, positions, collective.delay_s, pairs)
        if times is None:
            self._num_refused[schedule] = self._num_refused.get(schedule, 0) + 1
            return False
        self._collective, self._times, self._positions = collective, times, positions
        order = np.argsort(times.reached_s, kind="stable")
        self._awaited = _Awaited(times.reached_s[order], ranks_awaited[order], steps_awaited[order])
        self._look_ahead()
        return True

    def fire(self, engine: Engine, now_s: float) -> None:
        """Notify those waiting for what has been reached by now; at the end, take the engine there."""
        collective, times, awaited = self._collective, self._times, self._awaited
        assert collective is not None
        assert times is not None
        num = int(np.searchsorted(awaited.time_s, latest(now_s), side="right"))
        if num:
            collective.notify_forecast(awaited.ranks[:num], awaited.steps[:num])
            self._awaited = _Awaited(*(column[num:] for column in awaited))
            self._look_ahead()
        end_s = float(times.end_s.max())
        if end_s <= latest(now_s):
            self._clear()
            self.num_taken += 1
            self._num_failed = 0
            engine.now_s = max(engine.now_s, min(end_s, now_s))
            collective.withdraw()
            engine.settle(collective, times.end_s, times.links, times.carried_bytes)

    def leave(self, engine: Engine, now_s: float) -> bool:
        """Give the shortcut up, since a process acts; return whether it was taken, so that the engine has to catch up.

        Where that is much, the engine is taken to the last step before now that all ranks have reached.
        """
        self._has_changed = True
        if self._times is None:
            return False
        if not self._skip(engine, now_s):
            self._fail()
        self._clear()
        return True

    def _skip(self, engine: Engine, now_s: float) -> bool:
        """Take the engine to the last step that all ranks reached before now; return whether that saves time."""
        collective, times, forecaster, positions = self._collective, self._times, self._forecaster, self._positions
        assert collective is not None
        assert times is not None
        assert forecaster is not None
        begun_s, end_s = float(positions.reached_s.min()), float(times.end_s.max())
        if (now_s - begun_s) * collective.schedule.num_transfers() < _FEWEST_TO_SKIP * (end_s - begun_s):
            return False
        halfway = forecaster.before(collective.schedule, collective.nodes, positions, collective.delay_s, now_s)
        if halfway is None:
            return False
        collective.entries = []
        engine.skip(collective, halfway.step, halfway.reached_s, times.links, times.carried_bytes - halfway.left_bytes)
        return True

    def _look_ahead(self) -> None:
        assert self._times is not None
        self.next_s = float(self._awaited.time_s[0] if len(self._awaited.time_s) else self._times.end_s.max())

    def _clear(self) -> None:
        self._collective = self._times = None
        self._awaited = _NOTHING_AWAITED
        self.next_s = INFINITE

    def _fail(self) -> None:
        """Pass the next opportunities: twice as many as after the failure before."""
        self._num_to_pass = min(2**self._num_failed - 1, _MOST_PASSED)
        self._num_failed += 1


def has_begun(ranks: EngineRanks) -> bool:
    """Return whether any rank may have sent something."""
    reached_steps, _, at_steps = ranks.columns()
    return bool((reached_steps > 0).any() or (at_steps >= 0).any())


def positions_of(collective: Collective, ranks: EngineRanks, num_flows: int) -> RankPositions | None:
    """Return where the ranks of a collective are.

    None, where anything else than their messages is in flight, or these hold each other back at this time.
    """
    in_flight = ranks.in_flight()
    if len(in_flight) != num_flows or any(row.is_held_back for row in in_flight):
        return None
    reached_steps, reached_s, at_steps = ranks.columns()
    for entered, times_s in collective.entries:
        reached_s[entered] = times_s
    moving = {(row.step, row.message): row for row in in_flight}
    rows = [(row.step, row.message, row.end_s, row.is_added) for row in in_flight]
    for number in np.unique(at_steps[at_steps >= 0]).tolist():
        columns = collective.schedule.step(number)
        begun = np.flatnonzero((at_steps[columns.src] == number) & (at_steps[columns.dst] == number))
        rows += [(number, message, -INFINITE, True) for message in begun.tolist() if (number, message) not in moving]
    return RankPositions(np.maximum(reached_steps, 0), reached_s, MessagesInFlight.of(rows))
