"""Which part of a run counts where workers do not march in step: from one update to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import simpy

from clustersim.results import UpdateLog

_MOST_ROUNDS = 10


class Window:
    """The time from the `num_before`-th part of a gradient that is applied to the `num_counted`-th after it.

    An iteration counts if it begins in the window; so the run goes on until every worker has ended the one in which
    the window closed. Over many runs the counted iterations are neither the short nor the long ones: as much
    of them is left out at the beginning as juts out at the end. `finished` fires then.
    """

    def __init__(
        self,
        env: simpy.Environment,
        updates: UpdateLog,
        ranks: Iterable[int],
        num_before: int,
        num_counted: int,
        tell: Callable[[float], None] = lambda share: None,
    ):
        self.start_s = self.end_s = float("inf")
        self.first_row = self.last_row = 0  # of the update log: those between count
        self.finished: simpy.Event = env.event()
        self._env = env
        self._updates = updates
        self._unfinished = set(ranks)
        self._num_applied = 0
        self._num_before, self._num_counted = num_before, num_counted
        self._tell = tell

    def applied(self, num_parts: int) -> None:
        """Note that a gradient stands in the log, of which so many parts have been applied."""
        self._num_applied += num_parts
        if self._num_applied >= self._num_before and self.start_s > self._env.now:
            self.start_s, self.first_row = self._env.now, len(self._updates)
        if self._num_applied >= self._num_before + self._num_counted and self.start_s < self._env.now < self.end_s:
            self.end_s, self.last_row = self._env.now, len(self._updates)
        self._tell(min(1.0, self._num_applied / (self._num_before + self._num_counted)))

    def ended(self, rank: int) -> None:
        """Note that a worker has ended an iteration."""
        if self._env.now >= self.end_s and self._unfinished:
            self._unfinished.discard(rank)
            if not self._unfinished:
                self.finished.succeed()


def counted_updates(num_workers: int, num_updates: int, per_update: int, per_round: int) -> tuple[int, int]:
    """Return how many updates come before those that count, and how many count.

    Before: one gradient of each worker. Then `num_updates`; but an update may take as little as one gradient
    (`per_update`), and with few of them not every worker has had its turn: so at least as many as so many rounds
    have, up to ten rounds (of `per_round` updates each).

    >>> counted_updates(64, 10_000, 1, 64), counted_updates(8, 10, 8, 1), counted_updates(8, 20, 1, 8)
    ((64, 10000), (1, 10), (8, 80))
    """
    return -(-num_workers // per_update), max(num_updates, min(num_updates, _MOST_ROUNDS) * per_round)
