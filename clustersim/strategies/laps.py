"""Laps that ranks go through: what each comes to in a lap and when, and when all of them only repeat themselves.

What will happen follows from where every rank is and from what is on its way. Both follow from what has happened in
the laps before, where nothing is on its way that began earlier. So once all ranks have done a whole lap like the one
before, each a time T later in every thing that it did and that ended of what it had begun, and so far do so in the
lap after that, laps go on like that until the first rank has no more of them: each is another T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import simpy

_SAME = 1e-12  # share of a lap by which times may differ, beside what rounding makes of the clock
_ROUNDING = 1e-14  # share of the clock's time
_KEPT = 4  # laps of a rank: the one that it is in, and those before it


class Lap:
    """When a rank began each thing that it did in a lap, and when that ended which it let go on beside (NaN: not yet).

    `begin_s` is when the lap began.
    """

    __slots__ = ("began_s", "begin_s", "ended_s")

    def __init__(self, begin_s: float):
        self.begin_s = begin_s
        self.began_s: list[float] = []
        self.ended_s: list[float] = []


class Tally(NamedTuple):
    """What a rank has counted so far, and how many rows it has in a diary."""

    counted: np.ndarray
    num_rows: int


class Runner:
    """A rank that goes through `num_laps`: the lap it is in and the three before it, and its tally as it began each.

    `repeated` are the tallies around the lap that stands for those that are left out.
    """

    def __init__(self, env: simpy.Environment, num_laps: int):
        self._env, self.num_left = env, num_laps
        self.laps: list[Lap] = []
        self.repeated: tuple[Tally, Tally] | None = None
        self._tallies: list[Tally] = []

    def begin(self, tally: Tally) -> None:
        """Begin another lap, which is no longer left."""
        self.laps = [*self.laps[1 - _KEPT :], Lap(float(self._env.now))]
        self._tallies = [*self._tallies[-1:], tally]

    def leave_out(self, num: int) -> None:
        """Leave laps out that are still to come."""
        self.num_left -= num
        before, after = self._tallies
        self.repeated = before, after

    def note(self) -> None:
        """Note that the rank does another thing from now on."""
        self.laps[-1].began_s.append(float(self._env.now))

    def watch(self, event: simpy.Event) -> None:
        """Note when something ends that the rank lets go on beside what it does."""
        ended_s = self.laps[-1].ended_s
        place = len(ended_s)
        ended_s.append(np.nan)

        def note(_: simpy.Event) -> None:
            ended_s[place] = float(self._env.now)

        if event.callbacks is None:
            note(event)
        else:
            event.callbacks.append(note)

    def repeats(self, after_s: float, slack_s: float) -> bool:
        """Say whether what a rank did in its latest laps came again so much later, but for the slack, up to now."""
        if len(self.laps) < 3:
            return False
        *oldest, older, last, current = self.laps
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


class LeftOut(NamedTuple):
    """Laps that were left out at a time, how long they would have taken, and what links would have carried in them."""

    at_s: float
    seconds: float
    link_bytes: np.ndarray


class Laps:
    """The laps of one iteration of all ranks in `num_laps`, by rank; `look` gives the bytes of links [num_links].

    Those that all ranks can do without are left out once that is known, all but one of each, and `told`.
    """

    def __init__(
        self,
        env: simpy.Environment,
        num_laps: Mapping[int, int],
        look: Callable[[], np.ndarray],
        told: list[LeftOut],
    ):
        self._env, self._look, self._told = env, look, told
        self.runners = {rank: Runner(env, num) for rank, num in num_laps.items()}
        self._last: int | None = None  # the rank that was the last to come to its laps
        self._num_early, self._quiet_from_s = 0, 0.0  # of what began before laps, and from when on there is none
        self._carried: np.ndarray | None = None  # by links when all ranks had repeated themselves for the first time
        self.is_over = False  # whether laps are left out by now, or can be no longer
        self.num_left_out = 0  # of the laps of each rank
        self.lap_s = 0.0  # how long each of them would have taken

    def begin(self, rank: int, tally: Tally) -> Runner:
        """Begin another lap of a rank; return who looks on while it is in it."""
        runner = self.runners[rank]
        runner.begin(tally)
        if self._last is None and all(each.laps for each in self.runners.values()):
            self._last = rank
        if rank == self._last:
            self._consider()
        return runner

    def end(self) -> None:
        """End the laps of a rank: nothing is left out any more."""
        self.is_over = True

    def watch_early(self, event: simpy.Event) -> None:
        """Watch what a rank has begun outside laps."""
        if self.is_over or event.callbacks is None:
            return
        self._num_early += 1

        def ended(_: simpy.Event) -> None:
            self._num_early -= 1
            self._quiet_from_s = float(self._env.now)

        event.callbacks.append(ended)

    def _consider(self) -> None:
        """Leave laps out if all ranks repeat themselves, and did so a lap ago."""
        num = min(runner.num_left for runner in self.runners.values()) - 1
        if num < 1:
            self.is_over = True
            return
        lap_s = self._lap_s()
        if lap_s is None:
            self._carried = None
        elif self._carried is None or any(len(runner.laps) < _KEPT for runner in self.runners.values()):
            self._carried = self._look()
        else:
            self._told.append(LeftOut(float(self._env.now), num * lap_s, num * (self._look() - self._carried)))
            self.is_over, self.num_left_out, self.lap_s = True, num, lap_s
            for runner in self.runners.values():
                runner.leave_out(num)

    def _lap_s(self) -> float | None:
        """Return how long a lap of every rank takes, if all repeat themselves."""
        laps = self.runners[self._last].laps if self._last is not None else []
        if len(laps) < 3 or self._num_early:
            return None
        now_s = float(self._env.now)
        lap_s = now_s - laps[-2].begin_s
        slack_s = _SAME * lap_s + _ROUNDING * now_s
        for runner in self.runners.values():
            if not runner.repeats(lap_s, slack_s) or runner.laps[-2].begin_s < self._quiet_from_s:
                return None
        return lap_s
