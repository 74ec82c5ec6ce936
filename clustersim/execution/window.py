"""Which part of a run counts where workers do not march in step: from one update of the model to another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import simpy

from clustersim.results import UpdateLog

PATIENCE = 2
"""How long the run goes on for iterations under way when the window closes, in longest ones that there were."""


class Window:
    """The time from the `num_before`-th update of the model to the `num_counted`-th after it.

    Of an iteration as much counts as lies in the window. How much that is of one under way when the window closes is
    known when it ends; so the run goes on until every worker has ended the iteration in which the window closed. It
    does not go on for ever for a worker that is cut off: only as long again as the window, or twice as long as the
    longest iteration so far, whichever is more. `finished` fires then.

    `counts_gradients` says that iterations are counted by the gradients in the window: where workers wait for every
    update, a window from one to another holds as many as there are.
    """

    def __init__(
        self,
        env: simpy.Environment,
        updates: UpdateLog,
        ranks: Iterable[int],
        num_before: int,
        num_counted: int,
        tell: Callable[[float], None] = lambda share: None,
        counts_gradients: bool = False,
    ):
        self.start_s = self.end_s = float("inf")
        self.first_row = self.last_row = 0  # of the update log: those between count
        self.num_updates = 0
        self.counts_gradients = counts_gradients
        self.finished: simpy.Event = env.event()
        self._env = env
        self._updates = updates
        self._unfinished = set(ranks)
        self._longest_s = 0.0
        self.num_before, self.num_counted = num_before, num_counted
        self._tell = tell

    def updated(self) -> None:
        """Note that the model has a new version, whose gradients stand in the log."""
        self.num_updates += 1
        if self.num_updates == self.num_before:
            self.open()
        if self.num_updates >= self.num_before + self.num_counted and self.start_s < self._env.now < self.end_s:
            self.close()
        self._tell(min(1.0, self.num_updates / (self.num_before + self.num_counted)))

    def open(self) -> None:
        """Let what follows count."""
        self.start_s, self.first_row = float(self._env.now), len(self._updates)

    def close(self) -> None:
        """Let what follows count no more."""
        self.end_s, self.last_row = float(self._env.now), len(self._updates)
        self._env.process(self._lose_patience())

    def ended(self, rank: int, begin_s: float) -> None:
        """Note that a worker has ended an iteration that began at a time."""
        self._longest_s = max(self._longest_s, self._env.now - begin_s)
        if self._env.now >= self.end_s and self._unfinished:
            self._unfinished.discard(rank)
            if not self._unfinished and not self.finished.triggered:
                self.finished.succeed()

    def _lose_patience(self) -> Generator[simpy.Event, Any, None]:
        yield self._env.timeout(max(self.end_s - self.start_s, PATIENCE * self._longest_s))
        if not self.finished.triggered:
            self.finished.succeed()


def updates_before(num_workers: int, per_update: int, num_filling: int) -> int:
    """Return how many updates come before those that count: of one gradient of each worker, `per_update` in each.

    And of as many more as it takes until samples can have been prefetched, `num_filling` of each worker.

    >>> updates_before(64, 1, 0), updates_before(8, 8, 0), updates_before(16, 14, 2)
    (64, 1, 4)
    """
    return -(-num_workers * (1 + num_filling) // per_update)
