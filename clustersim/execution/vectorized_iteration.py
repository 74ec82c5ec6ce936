"""One iteration of all workers of a march: what each bucket of each rank waits for, and when it came."""

from __future__ import annotations

import numpy as np


class VectorizedIteration:
    """What is known of an iteration, rank by rank, in columns [num_ranks] and tables [num_buckets, num_ranks].

    A bucket enters when two things have happened: it is ready (and copied to the host, where the transport
    stages there), and the one before it has been pushed. It has happened to `num_missing` too few of them yet;
    the later of those that have was, or will be, at `enter_s`. After both it is copied for `copied_s`, if at all.
    """

    def __init__(self, num_ranks: int, iteration: int, num_buckets: int):
        table = (num_buckets, num_ranks)
        self.iteration = iteration
        self.slowdown, self.update_s, self.computed_s = np.ones(num_ranks), np.zeros(num_ranks), np.zeros(num_ranks)
        self.ready_s, self.enter_s, self.left_s, self.back_s = (np.zeros(table) for _ in range(4))
        self.copied_s: np.ndarray | None = None
        self.is_waiting = np.zeros(table, dtype=bool)  # it is known when it enters, and its collective does not know
        self.num_unknown = [num_ranks] * num_buckets  # ranks of which it is not known when they enter
        self.is_open = [False] * num_buckets
        self.alarm_s = [np.inf] * num_buckets  # when the first of those waiting enters
        self.num_inside = num_ranks  # ranks that have not ended it
        self._num_missing = np.full(table, 2)
        self._num_missing[0] = 1
        self._num_out = np.full(num_ranks, num_buckets)

    def clear(self, bucket: int, ranks: np.ndarray, times_s: np.ndarray | float) -> bool:
        """Note that one of the things has happened, or will, that a bucket waits for; return whether any has all."""
        enter_s, missing = self.enter_s[bucket], self._num_missing[bucket]
        enter_s[ranks] = np.maximum(enter_s[ranks], times_s)
        left = missing[ranks] - 1
        missing[ranks] = left
        may_enter = ranks[left == 0]
        if not len(may_enter):
            return False
        if self.copied_s is not None:
            enter_s[may_enter] += self.copied_s[bucket, may_enter]
        self.is_waiting[bucket, may_enter] = True
        self.num_unknown[bucket] -= len(may_enter)
        return True

    def take_waiting(self, bucket: int) -> np.ndarray:
        """Return those ranks that enter a bucket's exchange as far as is known, which wait no more."""
        self.is_open[bucket] = True
        ranks = np.flatnonzero(self.is_waiting[bucket])
        self.is_waiting[bucket, ranks] = False
        return ranks

    def back(self, bucket: int, ranks: np.ndarray, now_s: float) -> np.ndarray:
        """Note that ranks have a bucket back; return those that have all back, and so end the iteration."""
        self.back_s[bucket, ranks] = now_s
        self._num_out[ranks] -= 1
        ended: np.ndarray = ranks[self._num_out[ranks] == 0]
        self.num_inside -= len(ended)
        return ended
