"""The part of a run that counts where workers are not in step: from one update of the model to another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import simpy

from clustersim.results import UpdateLog

PATIENCE = 2
"""How long the run waits for iterations in progress when the window closes, in multiples of the longest one so far."""


class Window:
    """The time from an update of the model to the `num_counted`-th update after it.

    It opens at the first update, from the `num_before`-th on, at which `is_steady(number of updates)`. `warnings` are
    sentences, known when the run is over, about a window that opened before the job was steady.

    An iteration counts with the share of its time that lies in the window. For an iteration in progress when the
    window closes (`closed` fires), that share is known only when it ends. So the run goes on until every worker has
    ended the iteration in which the window closed, and then `finished` fires. For a worker that is cut off the run
    waits only as long again as the window, or twice the longest iteration so far, if that is more.

    `counts_gradients` says that iterations are counted by the gradients in the window. This is for workers that wait
    for every update: the window from one update to another then holds a whole number of gradients.

    `on_progress` is called with the share of the updates that are done, 0 to 1.
    """

    def __init__(
        self,
        env: simpy.Environment,
        updates: UpdateLog,
        ranks: Iterable[int],
        num_before: int,
        num_counted: int,
        on_progress: Callable[[float], None] = lambda share: None,
        counts_gradients: bool = False,
        is_steady: Callable[[int], bool] = lambda num_updates: True,
        warnings: Callable[[], tuple[str, ...]] = tuple,
    ):
        self.start_s = self.end_s = float("inf")
        self.first_row = self.last_row = 0  # of the update log: the rows between them count
        self.num_updates = 0
        self.counts_gradients = counts_gradients
        self.finished: simpy.Event = env.event()
        self.closed: simpy.Event = env.event()
        self._env = env
        self._updates = updates
        self._unfinished = set(ranks)
        self._longest_s = 0.0
        self.num_before, self.num_counted = num_before, num_counted
        self._on_progress, self._is_steady = on_progress, is_steady
        self.warnings = warnings

    def updated(self) -> None:
        """Note that the model has a new version, whose gradients are in the update log."""
        self.num_updates += 1
        if self.start_s == float("inf") and self.num_updates >= self.num_before:
            self.num_before = self.num_updates
            if self._is_steady(self.num_updates):
                self.open()
        if self.num_updates >= self.num_before + self.num_counted and self.start_s < self._env.now < self.end_s:
            self.close()
        self._on_progress(min(1.0, self.num_updates / (self.num_before + self.num_counted)))

    def open(self) -> None:
        """Open the window now."""
        self.start_s, self.first_row = float(self._env.now), len(self._updates)

    def open_first(self) -> None:
        """Open the window now, before the first update, so that updates count from the first on."""
        self.num_before = 0
        self.open()

    def close(self) -> None:
        """Close the window now."""
        self.end_s, self.last_row = float(self._env.now), len(self._updates)
        self.closed.succeed()
        self._env.process(self._time_out())

    def ended(self, rank: int, begin_s: float) -> None:
        """Note that a worker ends now an iteration that began at `begin_s` seconds."""
        self._longest_s = max(self._longest_s, self._env.now - begin_s)
        if self._env.now >= self.end_s and self._unfinished:
            self._unfinished.discard(rank)
            if not self._unfinished and not self.finished.triggered:
                self.finished.succeed()

    def _time_out(self) -> Generator[simpy.Event, Any, None]:
        yield self._env.timeout(max(self.end_s - self.start_s, PATIENCE * self._longest_s))
        if not self.finished.triggered:
            self.finished.succeed()


def updates_before(num_workers: int, per_update: int, num_filling: int) -> int:
    """Return the number of updates before those that count, with `per_update` gradients in each.

    Each worker contributes one gradient, and `num_filling` more until the prefetch queue can be full.

    >>> updates_before(64, 1, 0), updates_before(8, 8, 0), updates_before(16, 14, 2)
    (64, 1, 4)
    """
    return -(-num_workers * (1 + num_filling) // per_update)
