"""Cycles that ranks go through: what each comes to in a cycle and when, and when all of them only repeat themselves.

What will happen follows from where every rank is and from what is on its way. Both follow from what has happened in
the cycles before, where nothing is on its way that began earlier. So once all ranks have done a whole cycle like the
one before, each a time T later in every thing that it did and that ended of what it had begun, and so far do so in the
cycle after that, cycles go on like that until the first rank has no more of them: each is another T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import simpy

_SAME = 1e-12  # share of a cycle by which times may differ, beside what rounding makes of the clock
_ROUNDING = 1e-14  # share of the clock's time
_KEPT = 4  # cycles of a rank: the one that it is in, and those before it


class Cycle:
    """When a rank began each operation of a cycle, and when what it left running beside it ended (NaN: not yet).

    `begin_s` is when the cycle began.
    """

    __slots__ = ("began_s", "begin_s", "ended_s")

    def __init__(self, begin_s: float):
        self.begin_s = begin_s
        self.began_s: list[float] = []
        self.ended_s: list[float] = []


class RankCounts(NamedTuple):
    """What a rank has counted so far, and how many rows it has in a recorder."""

    counted: np.ndarray
    num_rows: int


class RankCycles:
    """A rank in `num_cycles` cycles: its present cycle, the three before it, and its counts at the start of each.

    `repeated` are the tallies around the cycle that stands for those that are left out.
    """

    def __init__(self, env: simpy.Environment, num_cycles: int):
        self._env, self.num_left = env, num_cycles
        self.cycles: list[Cycle] = []
        self.repeated: tuple[RankCounts, RankCounts] | None = None
        self._tallies: list[RankCounts] = []

    def begin(self, tally: RankCounts) -> None:
        """Begin another cycle, which is no longer left."""
        self.cycles = [*self.cycles[1 - _KEPT :], Cycle(float(self._env.now))]
        self._tallies = [*self._tallies[-1:], tally]

    def leave_out(self, num: int) -> None:
        """Leave cycles out that are still to come."""
        self.num_left -= num
        before, after = self._tallies
        self.repeated = before, after

    def note(self) -> None:
        """Note that the rank does another thing from now on."""
        self.cycles[-1].began_s.append(float(self._env.now))

    def watch(self, event: simpy.Event) -> None:
        """Note when something ends that the rank lets go on beside what it does."""
        ended_s = self.cycles[-1].ended_s
        place = len(ended_s)
        ended_s.append(np.nan)

        def note(_: simpy.Event) -> None:
            ended_s[place] = float(self._env.now)

        if event.callbacks is None:
            note(event)
        else:
            event.callbacks.append(note)

    def repeats(self, after_s: float, slack_s: float) -> bool:
        """Say whether what a rank did in its latest cycles came again so much later, but for the slack, up to now."""
        if len(self.cycles) < 3:
            return False
        *oldest, older, last, current = self.cycles
        if len(older.began_s) != len(last.began_s) or len(older.ended_s) != len(last.ended_s):
            return False
        begun_s, ended_s = np.array(last.began_s), np.array(older.ended_s)
        now_s = float(self._env.now)
        return (
            bool((abs(begun_s - np.array(older.began_s) - after_s) <= slack_s).all())
            and not np.isnan(ended_s).any()
            and all(_as_expected(ended_s - after_s, each.ended_s, now_s, slack_s) for each in oldest)
            and _as_expected(begun_s + after_s, current.began_s, now_s, slack_s)
            and _as_expected(ended_s + after_s, last.ended_s, now_s, slack_s)
            and _as_expected(ended_s + 2 * after_s, current.ended_s, now_s, slack_s, has_more=True)
        )


def _as_expected(
    expected_s: np.ndarray, found_s: list[float], now_s: float, slack_s: float, has_more: bool = False
) -> bool:
    """Say whether things happened when they were expected; what has not (NaN, or beyond what is found) is yet to come.

    With `has_more` what is expected beyond what is found may be past: it follows something that is yet to come.
    """
    num = len(found_s)
    if num > len(expected_s):
        return False
    found = np.array(found_s)
    is_there = ~np.isnan(found)
    not_there = expected_s[:num][~is_there] if has_more else np.append(expected_s[:num][~is_there], expected_s[num:])
    return bool(
        (abs(found[is_there] - expected_s[:num][is_there]) <= slack_s).all() and (not_there >= now_s - slack_s).all()
    )


class SkippedCycles(NamedTuple):
    """Cycles that were skipped at a time, how long they would have taken, and the bytes of links in them."""

    at_s: float
    seconds: float
    link_bytes: np.ndarray


class MicroBatchCycles:
    """The cycles of one iteration of all ranks in `num_cycles`, by rank; `look` gives the bytes of links [num_links].

    Those that all ranks can do without are left out once that is known, all but one of each, and `told`.
    """

    def __init__(
        self,
        env: simpy.Environment,
        num_cycles: Mapping[int, int],
        look: Callable[[], np.ndarray],
        told: list[SkippedCycles],
    ):
        self._env, self._look, self._told = env, look, told
        self.runners = {rank: RankCycles(env, num) for rank, num in num_cycles.items()}
        self._last: int | None = None  # the rank that was the last to come to its cycles
        self._num_early, self._quiet_from_s = 0, 0.0  # of what began before cycles, and from when on there is none
        self._carried: np.ndarray | None = None  # by links when all ranks had repeated themselves for the first time
        self.is_over = False  # whether cycles are left out by now, or can be no longer
        self.num_left_out = 0  # of the cycles of each rank
        self.cycle_s = 0.0  # how long each of them would have taken

    def begin(self, rank: int, tally: RankCounts) -> RankCycles:
        """Begin another cycle of a rank; return who looks on while it is in it."""
        runner = self.runners[rank]
        runner.begin(tally)
        if self._last is None and all(each.cycles for each in self.runners.values()):
            self._last = rank
        if rank == self._last:
            self._consider()
        return runner

    def end(self) -> None:
        """End the cycles of a rank: nothing is left out any more."""
        self.is_over = True

    def watch_early(self, event: simpy.Event) -> None:
        """Watch what a rank has begun outside cycles."""
        if self.is_over or event.callbacks is None:
            return
        self._num_early += 1

        def ended(_: simpy.Event) -> None:
            self._num_early -= 1
            self._quiet_from_s = float(self._env.now)

        event.callbacks.append(ended)

    def _consider(self) -> None:
        """Leave cycles out if all ranks repeat themselves, and did so a cycle ago."""
        num = min(runner.num_left for runner in self.runners.values()) - 1
        if num < 1:
            self.is_over = True
            return
        cycle_s = self._cycle_s()
        if cycle_s is None:
            self._carried = None
        elif self._carried is None or any(len(runner.cycles) < _KEPT for runner in self.runners.values()):
            self._carried = self._look()
        else:
            self._told.append(SkippedCycles(float(self._env.now), num * cycle_s, num * (self._look() - self._carried)))
            self.is_over, self.num_left_out, self.cycle_s = True, num, cycle_s
            for runner in self.runners.values():
                runner.leave_out(num)

    def _cycle_s(self) -> float | None:
        """Return how long a cycle of every rank takes, if all repeat themselves."""
        cycles = self.runners[self._last].cycles if self._last is not None else []
        if len(cycles) < 3 or self._num_early:
            return None
        now_s = float(self._env.now)
        cycle_s = now_s - cycles[-2].begin_s
        slack_s = _SAME * cycle_s + _ROUNDING * now_s
        for runner in self.runners.values():
            if not runner.repeats(cycle_s, slack_s) or runner.cycles[-2].begin_s < self._quiet_from_s:
                return None
        return cycle_s
