"""A march of workers whose collectives hold multiprocessors of the GPUs that compute beside them.

Buckets of a worker follow one another. So from when it enters one until it leaves it, it computes at what is left of
its speed, and when the next one is ready is known when it leaves: it has been by then, or nothing holds it up until it
is.
"""

from __future__ import annotations

import numpy as np

from clustersim.execution.vectorized_iteration import VectorizedIteration
from clustersim.execution.vectorized_workers import VectorizedWorkers


class _Progress:
    """How far ranks have come in an iteration: `done_s` of their work at `at_s` [num_ranks].

    `parts_s` [num_buckets + 1, num_ranks] is the work until each bucket is ready, and until the end of backward.
    """

    def __init__(self, num_buckets: int, num_ranks: int):
        self.parts_s = np.zeros((num_buckets + 1, num_ranks))
        self.ready_s = np.full((num_buckets + 1, num_ranks), np.inf)
        self.done_s, self.at_s = np.zeros(num_ranks), np.zeros(num_ranks)

    def compute(self, first: int, ranks: np.ndarray, until_s: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Go on until a time, with a share of the multiprocessors held; return what is lost [len(ranks)].

        When parts before the `first` one were ready is asked for no more.
        """
        at_s, speed = self.at_s[ranks], 1.0 - held
        left_s = np.maximum(0.0, self.parts_s[first:, ranks] - self.done_s[ranks])
        ready_s, known_s = at_s + left_s / speed, self.ready_s[first:, ranks]
        comes = (known_s == np.inf) & (ready_s <= until_s)
        self.ready_s[first:, ranks] = np.where(comes, ready_s, known_s)
        lost_s: np.ndarray = held * np.minimum(until_s - at_s, left_s[-1] / speed)
        self.done_s[ranks] += (until_s - at_s) * speed
        self.at_s[ranks] = until_s
        return lost_s

    def alone(self, part: int, ranks: np.ndarray) -> np.ndarray:
        """Return when a part is done, if it is not yet and nothing holds it up [len(ranks)]."""
        known_s = self.ready_s[part, ranks]
        free_s = self.at_s[ranks] + (self.parts_s[part, ranks] - self.done_s[ranks])
        done_s: np.ndarray = np.where(known_s < np.inf, known_s, free_s)
        return done_s


class _SharedIteration(VectorizedIteration):
    """A round that knows how far its ranks have come backward."""

    def __init__(self, num_ranks: int, iteration: int, num_buckets: int):
        super().__init__(num_ranks, iteration, num_buckets)
        self.progress = _Progress(num_buckets, num_ranks)


def _progress(around: VectorizedIteration) -> _Progress:
    assert isinstance(around, _SharedIteration)
    return around.progress


class VectorizedWorkersSharingSms(VectorizedWorkers):
    """Workers whose exchanges hold multiprocessors; each leaves one before it enters the next. Their pace is steady."""

    rounds = _SharedIteration

    def _compute(self, around: VectorizedIteration, ranks: np.ndarray, now_s: np.ndarray) -> None:
        """Go forward, and note what there is to do backward."""
        super()._compute(around, ranks, now_s)
        progress = _progress(around)
        begin_s = self._job.times.forward_s[ranks, around.iteration]
        ends_s = np.concatenate([around.ready_s[:, ranks], around.computed_s[None, ranks]])
        progress.parts_s[:, ranks] = ends_s - begin_s
        progress.at_s[ranks] = begin_s

    def _hand_over(self, around: VectorizedIteration, ranks: np.ndarray) -> None:
        """Let the first bucket set off: the others wait for it, and for what it holds up."""
        self._clear(around, 0, ranks, around.ready_s[0, ranks])

    def _pushed(self, around: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Let the next bucket follow when it is ready, beside what leaves only now."""
        self._catch_up(around, bucket, ranks)
        ready_s = _progress(around).alone(bucket + 1, ranks)
        around.ready_s[bucket + 1, ranks] = ready_s
        self._clear(around, bucket + 1, ranks, ready_s)
        self._clear(around, bucket + 1, ranks, self._job.env.now)

    def _left(self, around: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Let ranks have a bucket; when they have computed is known when the last one is."""
        if bucket == self._num_buckets - 1:
            self._catch_up(around, bucket, ranks)
            around.computed_s[ranks] = _progress(around).alone(-1, ranks)
            self._job.times.computed_s[ranks, around.iteration] = around.computed_s[ranks]
        super()._left(around, bucket, ranks)

    def _catch_up(self, around: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Compute freely until a bucket is entered, and beside its exchange until now."""
        nothing, now_s = np.zeros(len(ranks)), np.full(len(ranks), float(self._job.env.now))
        _progress(around).compute(bucket + 1, ranks, around.enter_s[bucket, ranks], nothing)
        lost_s = _progress(around).compute(bucket + 1, ranks, now_s, self._rendezvous.held(bucket)[ranks])
        self._job.times.slowed_s[ranks, around.iteration] += lost_s
