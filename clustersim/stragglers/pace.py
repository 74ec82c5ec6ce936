"""Speed over simulated time, and the end of work that starts at a given time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clustersim.stragglers.intervals import SlowIntervals

_WINDOW = 4.0  # first search window, in multiples of the work


class Pace:
    """Speed over simulated time: 1, times the speed of every straggler that is slow at that time.

    Piecewise constant; a speed of 0 is a pause. Work of w seconds that starts at s ends at the first e for which
    the integral of speed from s to e equals w.

    >>> from clustersim.stragglers.intervals import GivenIntervals
    >>> pace = Pace([(GivenIntervals([2.0], 1.0), 0.0)])
    >>> pace.end_s(0.0, 1.5), pace.end_s(1.0, 1.5), pace.end_s(2.5, 1.0)
    (1.5, 3.5, 4.0)
    """

    def __init__(self, intervals: Sequence[tuple[SlowIntervals, float]]):
        self._intervals = tuple(intervals)
        self._piece = (0.0, 0.0, 1.0)  # start, end, speed: the piece of the last call

    def end_s(self, start_s: float, work_s: float) -> float:
        """Return when work that starts at `start_s` and takes `work_s` at speed 1 ends."""
        since_s, until_s, speed = self._piece
        if since_s <= start_s and speed > 0 and start_s + work_s / speed <= until_s:
            return start_s + work_s / speed
        if work_s <= 0 or not self._intervals:
            return start_s + work_s
        return self._search(start_s, work_s)

    def pieces(self, start_s: float, end_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the pieces of constant speed between two times: their edges [n + 1] and speeds [n]."""
        edges = [each.edges(start_s, end_s) for each, _ in self._intervals]
        times_s = np.unique(np.concatenate([[start_s, end_s], *edges]))
        return times_s, self._speeds((times_s[:-1] + times_s[1:]) / 2)

    def changes(self) -> Iterator[tuple[float, float]]:
        """Yield (time_s, speed) at every change of speed, also at 0 s if it is not 1; it may be infinite."""
        time_s, speed = 0.0, 1.0
        while time_s < np.inf:
            until_s = self._next_edge(time_s)
            middle_s = time_s + 1.0 if until_s == np.inf else (time_s + until_s) / 2
            new = float(self._speeds(np.array([middle_s]))[0])
            if new != speed:
                yield time_s, new
            time_s, speed = until_s, new

    def _search(self, start_s: float, work_s: float) -> float:
        """Add pieces until the work is done; the search window doubles each time."""
        span_s = _WINDOW * work_s
        while True:
            times_s, speeds = self.pieces(start_s, start_s + span_s)
            done_s = np.cumsum(np.diff(times_s) * speeds)
            piece = int(np.searchsorted(done_s, work_s))
            if piece < len(speeds):
                before_s = float(done_s[piece - 1]) if piece else 0.0
                since_s, until_s, speed = float(times_s[piece]), float(times_s[piece + 1]), float(speeds[piece])
                last = piece == len(speeds) - 1
                self._piece = (since_s, self._next_edge(since_s) if last else until_s, speed)
                return since_s + (work_s - before_s) / speed
            work_s -= float(done_s[-1]) if len(done_s) else 0.0  # none if the span is below the clock's resolution
            start_s, span_s = float(times_s[-1]), 2 * span_s

    def _speeds(self, times_s: np.ndarray) -> np.ndarray:
        speeds = np.ones(len(times_s))
        for each, slow in self._intervals:
            speeds[each.is_slow(times_s)] *= slow
        return speeds

    def _next_edge(self, time_s: float) -> float:
        return min((each.next_edge(time_s) for each, _ in self._intervals), default=float("inf"))
