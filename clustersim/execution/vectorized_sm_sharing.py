"""Vectorized workers whose collectives occupy multiprocessors of the GPUs, which slows compute meanwhile.

The buckets of a worker follow one another. From when the worker enters the exchange of one until it leaves it, it
computes at its reduced speed. So when the next bucket is ready is known when the worker leaves: either it already is,
or the worker computes at full speed until it is.
"""

from __future__ import annotations

import numpy as np

from clustersim.execution.vectorized_iteration import VectorizedIteration
from clustersim.execution.vectorized_workers import VectorizedWorkers


class _Progress:
    """The progress of ranks in backward: `done_s` seconds of their work are done at the time `at_s` [num_ranks].

    `parts_s` [num_buckets + 1, num_ranks] is the work until each bucket is ready, and until the end of backward, in
    seconds at full speed.
    """

    def __init__(self, num_buckets: int, num_ranks: int):
        self.parts_s = np.zeros((num_buckets + 1, num_ranks))
        self.ready_s = np.full((num_buckets + 1, num_ranks), np.inf)
        self.done_s, self.at_s = np.zeros(num_ranks), np.zeros(num_ranks)

    def compute(self, first: int, ranks: np.ndarray, until_s: np.ndarray, sm_share: np.ndarray) -> np.ndarray:
        """Compute until a time, with a share of the multiprocessors occupied; return the lost seconds [len(ranks)].

        Parts before the `first` one are skipped: their times are not needed any more.
        """
        at_s, speed = self.at_s[ranks], 1.0 - sm_share
        left_s = np.maximum(0.0, self.parts_s[first:, ranks] - self.done_s[ranks])
        ready_s, known_s = at_s + left_s / speed, self.ready_s[first:, ranks]
        ends_by_then = (known_s == np.inf) & (ready_s <= until_s)
        self.ready_s[first:, ranks] = np.where(ends_by_then, ready_s, known_s)
        lost_s: np.ndarray = sm_share * np.minimum(until_s - at_s, left_s[-1] / speed)
        self.done_s[ranks] += (until_s - at_s) * speed
        self.at_s[ranks] = until_s
        return lost_s

    def ready_alone_s(self, part: int, ranks: np.ndarray) -> np.ndarray:
        """Return when a part was ready, or will be at full speed from now on [len(ranks)], in seconds."""
        known_s = self.ready_s[part, ranks]
        free_s = self.at_s[ranks] + (self.parts_s[part, ranks] - self.done_s[ranks])
        done_s: np.ndarray = np.where(known_s < np.inf, known_s, free_s)
        return done_s


class _SharedIteration(VectorizedIteration):
    """An iteration with the progress of its ranks in backward."""

    def __init__(self, num_ranks: int, number: int, num_buckets: int):
        super().__init__(num_ranks, number, num_buckets)
        self.progress = _Progress(num_buckets, num_ranks)


def _progress(iteration: VectorizedIteration) -> _Progress:
    assert isinstance(iteration, _SharedIteration)
    return iteration.progress


class VectorizedWorkersSharingSms(VectorizedWorkers):
    """Workers whose exchanges occupy multiprocessors; each leaves one before it enters the next. Paces are constant."""

    iteration_type = _SharedIteration

    def _compute(self, iteration: VectorizedIteration, ranks: np.ndarray, now_s: np.ndarray) -> None:
        """Compute forward, and record the work of backward."""
        super()._compute(iteration, ranks, now_s)
        progress = _progress(iteration)
        begin_s = self._job.times.forward_s[ranks, iteration.number]
        ends_s = np.concatenate([iteration.ready_s[:, ranks], iteration.computed_s[None, ranks]])
        progress.parts_s[:, ranks] = ends_s - begin_s
        progress.at_s[ranks] = begin_s

    def _send_buckets(self, iteration: VectorizedIteration, ranks: np.ndarray) -> None:
        """Send the first bucket. The others follow it, and its exchange slows the compute before them."""
        self._note_event(iteration, 0, ranks, iteration.ready_s[0, ranks])

    def _pushed(self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Let the next bucket follow when it is ready, which is known only now."""
        self._catch_up(iteration, bucket, ranks)
        ready_s = _progress(iteration).ready_alone_s(bucket + 1, ranks)
        iteration.ready_s[bucket + 1, ranks] = ready_s
        self._note_event(iteration, bucket + 1, ranks, ready_s)
        self._note_event(iteration, bucket + 1, ranks, self._job.env.now)

    def _left(self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """End the exchange of a bucket. After the last one, the end of backward is known."""
        if bucket == self._num_buckets - 1:
            self._catch_up(iteration, bucket, ranks)
            iteration.computed_s[ranks] = _progress(iteration).ready_alone_s(-1, ranks)
            self._job.times.computed_s[ranks, iteration.number] = iteration.computed_s[ranks]
        super()._left(iteration, bucket, ranks)

    def _catch_up(self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Compute at full speed until ranks enter the exchange of a bucket, and at reduced speed until now."""
        none, now_s = np.zeros(len(ranks)), np.full(len(ranks), float(self._job.env.now))
        _progress(iteration).compute(bucket + 1, ranks, iteration.enter_s[bucket, ranks], none)
        lost_s = _progress(iteration).compute(bucket + 1, ranks, now_s, self._rendezvous.sm_share(bucket)[ranks])
        self._job.times.slowed_s[ranks, iteration.number] += lost_s
