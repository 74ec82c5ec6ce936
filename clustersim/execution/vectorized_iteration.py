"""One iteration of all workers in arrays: which events each bucket of each rank still waits for, and their times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.program.issue import IterationIssue


class VectorizedIteration:
    """The state of an iteration by rank [num_ranks], and by bucket and rank [num_buckets, num_ranks]; times in seconds.

    A bucket enters its exchange after two events. It is ready (and copied to the host, where the transport stages
    there), and the bucket before it has been pushed. `enter_s` is the later one of those that are known so far. After
    both, the bucket is copied for `copied_s`, where that is given.
    """

    def __init__(self, num_ranks: int, number: int, num_buckets: int):
        table = (num_buckets, num_ranks)
        self.number = number
        self.slowdown, self.update_s, self.computed_s = np.ones(num_ranks), np.zeros(num_ranks), np.zeros(num_ranks)
        self.ready_s, self.enter_s, self.left_s, self.back_s = (np.zeros(table) for _ in range(4))
        self.copied_s: np.ndarray | None = None
        self.issues: dict[int, tuple[IterationIssue, float]] = {}  # by rank, until its update, and when its host began
        self.is_waiting = np.zeros(table, dtype=bool)  # its entry is known, but not yet passed to the collective
        self.num_unknown = [num_ranks] * num_buckets  # ranks whose entry is not known yet
        self.is_open = [False] * num_buckets
        self.alarm_s = [np.inf] * num_buckets  # when the first of those waiting enters
        self.num_running = num_ranks  # ranks that have not ended the iteration
        self._num_missing = np.full(table, 2)  # events that a bucket waits for
        self._num_missing[0] = 1
        self._num_out = np.full(num_ranks, num_buckets)  # buckets that are not back

    def note_issue(self, ranks: np.ndarray, host_s: np.ndarray, issues: Sequence[IterationIssue | None]) -> None:
        """Note when hosts have issued the work of ranks [n], of which they began at `host_s` [n]; `issues` [1 or n]."""
        for place, (rank, begun_s) in enumerate(zip(ranks.tolist(), host_s.tolist(), strict=True)):
            issue = issues[0] if len(issues) == 1 else issues[place]
            if issue is not None:
                self.issues[rank] = issue, begun_s

    def note_event(self, bucket: int, ranks: np.ndarray, times_s: np.ndarray | float) -> bool:
        """Note the time of one of the events that a bucket of ranks [n] waits for, past or future.

        Return whether any of these ranks has all events.
        """
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
        """Return the ranks whose entry to a bucket's exchange is known, and mark them as no longer waiting."""
        self.is_open[bucket] = True
        ranks = np.flatnonzero(self.is_waiting[bucket])
        self.is_waiting[bucket, ranks] = False
        return ranks

    def note_back(self, bucket: int, ranks: np.ndarray, now_s: float) -> np.ndarray:
        """Note that a bucket is back at ranks; return those that have all buckets back and so end the iteration."""
        self.back_s[bucket, ranks] = now_s
        self._num_out[ranks] -= 1
        ended: np.ndarray = ranks[self._num_out[ranks] == 0]
        self.num_running -= len(ended)
        return ended
