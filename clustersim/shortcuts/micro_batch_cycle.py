"""Detects identical micro-batch cycles of all ranks of a layout, and says how many of them can be skipped.

The future of a run follows from the position of every rank and from the transfers in flight. Both follow from the last
cycles, if nothing in flight began before these. So take two consecutive cycles of every rank that match up to a time
shift T: every operation begins, and every background operation ends, T later than in the cycle before. If the next
cycle matches as well so far, then all further cycles match, each another T later, until the first rank has no cycle
left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import simpy

_SAME = 1e-12  # share of a cycle by which times may differ, besides the rounding of the clock
_ROUNDING = 1e-14  # share of the clock's time
_KEPT = 4  # cycles of a rank that are kept: the present one and those before it


class Cycle:
    """The times of a cycle of a rank: when each operation began, and when each background operation ended.

    All in seconds; the end is NaN while it runs. `begin_s` is when the cycle began.
    """

    __slots__ = ("began_s", "begin_s", "ended_s")

    def __init__(self, begin_s: float):
        self.begin_s = begin_s
        self.began_s: list[float] = []
        self.ended_s: list[float] = []


class RankCounts(NamedTuple):
    """The counters of a rank so far: the values `counted` [n], and the number of entries in its trace.

    The host has issued all so far at `host_until_s`; because of it, the GPU has waited `host_s` seconds.
    """

    counted: np.ndarray
    num_entries: int
    host_until_s: float = 0.0
    host_s: float = 0.0


class RankCycles:
    """The cycles of one rank: the present one, up to three before it, and the `num_left` still to come.

    `repeated` are the counts before and after the cycle that stands for the skipped ones; None if none were skipped.
    """

    def __init__(self, env: simpy.Environment, num_cycles: int):
        self._env, self.num_left = env, num_cycles
        self.cycles: list[Cycle] = []
        self.repeated: tuple[RankCounts, RankCounts] | None = None
        self._counts: list[RankCounts] = []  # at the start of the cycle before, and of the present one

    def begin(self, counts: RankCounts) -> None:
        """Begin a cycle, with the counts at its start."""
        self.cycles = [*self.cycles[1 - _KEPT :], Cycle(float(self._env.now))]
        self._counts = [*self._counts[-1:], counts]

    def skip(self, num: int) -> None:
        """Skip `num` of the cycles still to come."""
        self.num_left -= num
        before, after = self._counts
        self.repeated = before, after

    def note_op(self) -> None:
        """Record that the rank begins its next operation now."""
        self.cycles[-1].began_s.append(float(self._env.now))

    def watch(self, event: simpy.Event) -> None:
        """Record when a background operation ends, which the rank begins now."""
        ended_s = self.cycles[-1].ended_s
        place = len(ended_s)
        ended_s.append(np.nan)

        def note_end(_: simpy.Event) -> None:
            ended_s[place] = float(self._env.now)

        if event.callbacks is None:
            note_end(event)
        else:
            event.callbacks.append(note_end)

    def _issues_alike(self, shift_s: float, slack_s: float) -> bool:
        """Say whether the host keeps the GPU waiting as long in further cycles as in the last one.

        It does if it is as far ahead of the GPU as a cycle ago, or if it is further ahead and did not keep it waiting.
        """
        if len(self._counts) < 2:
            return False
        before, after = self._counts
        spent_s = after.host_until_s - before.host_until_s
        return abs(spent_s - shift_s) <= slack_s or (spent_s < shift_s and after.host_s == before.host_s)

    def matches(self, shift_s: float, slack_s: float) -> bool:
        """Say whether the latest cycles match up to a time shift and a slack in seconds, as far as they have come."""
        if len(self.cycles) < 3:
            return False
        if not self._issues_alike(shift_s, slack_s):
            return False
        *oldest, older, last, current = self.cycles
        if len(older.began_s) != len(last.began_s) or len(older.ended_s) != len(last.ended_s):
            return False
        began_s, ended_s = np.array(last.began_s), np.array(older.ended_s)
        now_s = float(self._env.now)
        return (
            bool((abs(began_s - np.array(older.began_s) - shift_s) <= slack_s).all())
            and not np.isnan(ended_s).any()
            and all(_as_expected(ended_s - shift_s, each.ended_s, now_s, slack_s) for each in oldest)
            and _as_expected(began_s + shift_s, current.began_s, now_s, slack_s)
            and _as_expected(ended_s + shift_s, last.ended_s, now_s, slack_s)
            and _as_expected(ended_s + 2 * shift_s, current.ended_s, now_s, slack_s, has_more=True)
        )


def _as_expected(
    expected_s: np.ndarray, found_s: list[float], now_s: float, slack_s: float, has_more: bool = False
) -> bool:
    """Say whether all events so far were at their expected times, and those missing are expected in the future.

    An event is missing if it is NaN, or beyond the end of what is found. With `has_more`, events beyond the end may be
    expected in the past: they follow an operation that has not begun.
    """
    num = len(found_s)
    if num > len(expected_s):
        return False
    found = np.array(found_s)
    has_happened = ~np.isnan(found)
    missing = expected_s[:num][~has_happened]
    missing = missing if has_more else np.append(missing, expected_s[num:])
    return bool(
        (abs(found[has_happened] - expected_s[:num][has_happened]) <= slack_s).all()
        and (missing >= now_s - slack_s).all()
    )


class SkippedCycles(NamedTuple):
    """Cycles that were skipped at a time, the seconds that they would have taken, and their bytes [num_links]."""

    at_s: float
    seconds: float
    link_bytes: np.ndarray


class MicroBatchCycles:
    """The cycles of all ranks in one iteration; `num_cycles` of them by rank.

    Once all ranks have repeated themselves, every rank skips the same number of cycles: all that the rank with the
    fewest has left, except for one. They are appended to `skipped`. `link_bytes` returns the bytes that links have
    carried so far [num_links].
    """

    def __init__(
        self,
        env: simpy.Environment,
        num_cycles: Mapping[int, int],
        link_bytes: Callable[[], np.ndarray],
        skipped: list[SkippedCycles],
    ):
        self._env, self._link_bytes, self._skipped = env, link_bytes, skipped
        self.rank_cycles = {rank: RankCycles(env, num) for rank, num in num_cycles.items()}
        self._last: int | None = None  # the rank that was the last to begin its cycles
        self._num_early, self._quiet_from_s = 0, 0.0  # operations begun before the cycles, and when the last one ended
        self._bytes_before: np.ndarray | None = None  # by link, when all ranks had repeated themselves once
        self.is_over = False  # whether cycles have been skipped, or can no longer be
        self.num_skipped = 0  # cycles of each rank
        self.cycle_s = 0.0  # seconds that each of them would have taken

    def begin(self, rank: int, counts: RankCounts) -> RankCycles:
        """Begin a cycle of a rank, with the counts at its start; return the rank's cycles."""
        rank_cycles = self.rank_cycles[rank]
        rank_cycles.begin(counts)
        if self._last is None and all(each.cycles for each in self.rank_cycles.values()):
            self._last = rank
        if rank == self._last:
            self._skip_if_identical()
        return rank_cycles

    def end(self) -> None:
        """End the cycles of a rank: none can be skipped any more."""
        self.is_over = True

    def watch_early(self, event: simpy.Event) -> None:
        """Watch an operation that a rank has begun outside its cycles, until the event of its end."""
        if self.is_over or event.callbacks is None:
            return
        self._num_early += 1

        def ended(_: simpy.Event) -> None:
            self._num_early -= 1
            self._quiet_from_s = float(self._env.now)

        event.callbacks.append(ended)

    def _skip_if_identical(self) -> None:
        """Skip cycles if all ranks repeat themselves, and did so a cycle ago."""
        num = min(each.num_left for each in self.rank_cycles.values()) - 1
        if num < 1:
            self.is_over = True
            return
        cycle_s = self._cycle_s()
        if cycle_s is None:
            self._bytes_before = None
        elif self._bytes_before is None or any(len(each.cycles) < _KEPT for each in self.rank_cycles.values()):
            self._bytes_before = self._link_bytes()
        else:
            skipped_bytes = num * (self._link_bytes() - self._bytes_before)
            self._skipped.append(SkippedCycles(float(self._env.now), num * cycle_s, skipped_bytes))
            self.is_over, self.num_skipped, self.cycle_s = True, num, cycle_s
            for each in self.rank_cycles.values():
                each.skip(num)

    def _cycle_s(self) -> float | None:
        """Return the seconds of a cycle of every rank; None if a rank does not repeat itself."""
        cycles = self.rank_cycles[self._last].cycles if self._last is not None else []
        if len(cycles) < 3 or self._num_early:
            return None
        now_s = float(self._env.now)
        cycle_s = now_s - cycles[-2].begin_s
        slack_s = _SAME * cycle_s + _ROUNDING * now_s
        for each in self.rank_cycles.values():
            if not each.matches(cycle_s, slack_s) or each.cycles[-2].begin_s < self._quiet_from_s:
                return None
        return cycle_s
