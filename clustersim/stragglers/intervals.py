"""Intervals of simulated time in which something is slow: given, periodic or random."""

from __future__ import annotations

from typing import Protocol

import numpy as np

_FIRST_DRAW = 16


class SlowIntervals(Protocol):
    """Times at which something becomes slow or normal again, in seconds from the start of the run."""

    def edges(self, start_s: float, end_s: float) -> np.ndarray:
        """Return all changes in start_s < t <= end_s, in order."""

    def next_edge(self, time_s: float) -> float:
        """Return the first change after a time; infinity if there is none."""

    def is_slow(self, times_s: np.ndarray) -> np.ndarray:
        """Return whether it is slow at each of these times [n]; at a change, the state after it."""


class GivenIntervals:
    """Intervals of one length that start at given times; intervals that overlap are merged.

    >>> GivenIntervals([4.0, 1.0], 2.0).edges(0.0, 9.0).tolist()
    [1.0, 3.0, 4.0, 6.0]
    """

    def __init__(self, starts_s: list[float], lasts_s: float):
        intervals_s: list[list[float]] = []
        for start_s in sorted(starts_s):
            if intervals_s and start_s <= intervals_s[-1][1]:
                intervals_s[-1][1] = start_s + lasts_s
            else:
                intervals_s.append([start_s, start_s + lasts_s])
        self._edges = np.array(intervals_s).ravel()

    def edges(self, start_s: float, end_s: float) -> np.ndarray:
        first, last = np.searchsorted(self._edges, [start_s, end_s], side="right")
        return self._edges[first:last]

    def next_edge(self, time_s: float) -> float:
        after = int(np.searchsorted(self._edges, time_s, side="right"))
        return float(self._edges[after]) if after < len(self._edges) else float("inf")

    def is_slow(self, times_s: np.ndarray) -> np.ndarray:
        passed = np.searchsorted(self._edges, times_s, side="right")
        return np.asarray(passed % 2 == 1)


class PeriodicIntervals:
    """Intervals of `lasts_s` that start every `every_s`, one of them at `phase_s`, without a first or a last one."""

    def __init__(self, every_s: float, lasts_s: float, phase_s: float):
        self._every_s, self._lasts_s, self._phase_s = every_s, lasts_s, phase_s

    def edges(self, start_s: float, end_s: float) -> np.ndarray:
        first, last = (int((time - self._phase_s) // self._every_s) for time in (start_s, end_s))
        starts_s = self._phase_s + np.arange(first - 1, last + 2) * self._every_s
        edges = np.column_stack([starts_s, starts_s + self._lasts_s]).ravel()
        inside: np.ndarray = edges[(edges > start_s) & (edges <= end_s)]
        return inside

    def next_edge(self, time_s: float) -> float:
        return float(self.edges(time_s, time_s + 2 * self._every_s)[0])

    def is_slow(self, times_s: np.ndarray) -> np.ndarray:
        return np.asarray((times_s - self._phase_s) % self._every_s < self._lasts_s)


class RandomIntervals:
    """Two alternating states with exponential lengths: slow for `lasts_s` and normal for `gap_s` on average.

    A stationary Markov process: at the start of the run it is slow with probability lasts_s / (lasts_s + gap_s).
    Changes are drawn on demand.
    """

    def __init__(self, rng: np.random.Generator, gap_s: float, lasts_s: float):
        self._rng = rng
        self._starts_slow = bool(rng.random() < lasts_s / (lasts_s + gap_s))
        self._means_s = np.array([lasts_s, gap_s] if self._starts_slow else [gap_s, lasts_s])
        self._edges = np.zeros(0)

    def edges(self, start_s: float, end_s: float) -> np.ndarray:
        self._draw_until(end_s)
        first, last = np.searchsorted(self._edges, [start_s, end_s], side="right")
        return self._edges[first:last]

    def next_edge(self, time_s: float) -> float:
        self._draw_until(time_s)
        return float(self._edges[np.searchsorted(self._edges, time_s, side="right")])

    def is_slow(self, times_s: np.ndarray) -> np.ndarray:
        self._draw_until(float(np.max(times_s, initial=0.0)))
        passed = np.searchsorted(self._edges, times_s, side="right")
        return np.asarray((passed % 2 == 1) != self._starts_slow)

    def _draw_until(self, time_s: float) -> None:
        """Draw changes until one is after this time; batches grow, so that the cost stays linear."""
        while not len(self._edges) or self._edges[-1] <= time_s:
            num_intervals = max(_FIRST_DRAW, len(self._edges) // 2)
            lengths_s = self._rng.standard_exponential(2 * num_intervals) * np.tile(self._means_s, num_intervals)
            last_s = self._edges[-1] if len(self._edges) else 0.0
            self._edges = np.concatenate([self._edges, last_s + np.cumsum(lengths_s)])
