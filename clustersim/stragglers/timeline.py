"""When something is slow: spells on the simulated clock, given, regular or random."""

from __future__ import annotations

from typing import Protocol

import numpy as np

_FIRST_SPELLS = 16


class Timeline(Protocol):
    """Times at which something turns slow and turns back. Seconds from the beginning of the run."""

    def edges(self, start_s: float, end_s: float) -> np.ndarray:
        """Return every time in start_s < t <= end_s at which it changes, in order."""

    def next_edge(self, time_s: float) -> float:
        """Return the first change after a time; infinity where there is none."""

    def is_slow(self, times_s: np.ndarray) -> np.ndarray:
        """Return whether it is slow at each of these times [n]; at a change, what comes after it."""


class Given:
    """Spells that begin at given times and last equally long; those that overlap are one.

    >>> Given([4.0, 1.0], 2.0).edges(0.0, 9.0).tolist()
    [1.0, 3.0, 4.0, 6.0]
    """

    def __init__(self, starts_s: list[float], lasts_s: float):
        spells: list[list[float]] = []
        for start_s in sorted(starts_s):
            if spells and start_s <= spells[-1][1]:
                spells[-1][1] = start_s + lasts_s
            else:
                spells.append([start_s, start_s + lasts_s])
        self._edges = np.array(spells).ravel()

    def edges(self, start_s: float, end_s: float) -> np.ndarray:
        first, last = np.searchsorted(self._edges, [start_s, end_s], side="right")
        return self._edges[first:last]

    def next_edge(self, time_s: float) -> float:
        after = int(np.searchsorted(self._edges, time_s, side="right"))
        return float(self._edges[after]) if after < len(self._edges) else float("inf")

    def is_slow(self, times_s: np.ndarray) -> np.ndarray:
        passed = np.searchsorted(self._edges, times_s, side="right")
        return np.asarray(passed % 2 == 1)


class Regular:
    """Spells of `lasts_s` that begin every `every_s`, one of them at `phase_s`; they have no beginning and no end."""

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


class Alternating:
    """Two states whose lengths are exponential, slow for `lasts_s` and not for `gap_s` on average.

    A Markov process that has gone on for ever when the run begins: it is slow then with the probability
    lasts_s / (lasts_s + gap_s). Changes are drawn as far as somebody looks.
    """

    def __init__(self, rng: np.random.Generator, gap_s: float, lasts_s: float):
        self._rng = rng
        self._begins_slow = bool(rng.random() < lasts_s / (lasts_s + gap_s))
        self._means_s = np.array([lasts_s, gap_s] if self._begins_slow else [gap_s, lasts_s])
        self._edges = np.zeros(0)

    def edges(self, start_s: float, end_s: float) -> np.ndarray:
        self._reach(end_s)
        first, last = np.searchsorted(self._edges, [start_s, end_s], side="right")
        return self._edges[first:last]

    def next_edge(self, time_s: float) -> float:
        self._reach(time_s)
        return float(self._edges[np.searchsorted(self._edges, time_s, side="right")])

    def is_slow(self, times_s: np.ndarray) -> np.ndarray:
        self._reach(float(np.max(times_s, initial=0.0)))
        passed = np.searchsorted(self._edges, times_s, side="right")
        return np.asarray((passed % 2 == 1) != self._begins_slow)

    def _reach(self, time_s: float) -> None:
        """Draw changes until one lies after this time; as many again each time, so that the cost stays linear."""
        while not len(self._edges) or self._edges[-1] <= time_s:
            num_spells = max(_FIRST_SPELLS, len(self._edges) // 2)
            lengths_s = self._rng.standard_exponential(2 * num_spells) * np.tile(self._means_s, num_spells)
            last_s = self._edges[-1] if len(self._edges) else 0.0
            self._edges = np.concatenate([self._edges, last_s + np.cumsum(lengths_s)])
