"""Vectorized workers whose collectives occupy multiprocessors of the GPUs, which slows compute meanwhile.

The buckets of a worker follow one another. From when the worker enters the exchange of one until it leaves it, it
computes at its reduced speed. So when the next bucket is ready is known when the worker leaves: either it already is,
or the worker computes at full speed until it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.execution.vectorized_iteration import VectorizedIteration
from clustersim.execution.vectorized_workers import VectorizedWorkers
from clustersim.execution.worker import issue_of
from clustersim.program.issue import IterationIssue


class _Progress:
    """The progress of ranks in backward: `done_s` seconds of their work are done at the time `at_s` [num_ranks].

    `parts_s` [num_buckets + 1, num_ranks] is the work until each bucket is ready, and until the end of backward, in
    seconds at full speed. Work after `issue_work_s` seconds cannot run before the host has issued it at `issued_s`,
    both [num_issue_times, num_ranks]. `num_before` [num_buckets + 1, num_ranks] of these are before the end of each
    part.
    """

    def __init__(self, num_buckets: int, num_ranks: int):
        self.parts_s = np.zeros((num_buckets + 1, num_ranks))
        self.issue_work_s = self.issued_s = np.zeros((0, num_ranks))
        self.num_before = np.zeros((num_buckets + 1, num_ranks), dtype=np.int64)
        self.ready_s = np.full((num_buckets + 1, num_ranks), np.inf)
        self.done_s, self.at_s = np.zeros(num_ranks), np.zeros(num_ranks)

    def compute(self, first: int, ranks: np.ndarray, until_s: np.ndarray, sm_share: np.ndarray) -> np.ndarray:
        """Compute until a time, with a share of the multiprocessors occupied; return the lost seconds [len(ranks)].

        Parts before the `first` one are skipped: their times are not needed any more.
        """
        at_s, speed = self.at_s[ranks], 1.0 - sm_share
        parts_s, done_s = self.parts_s[first:, ranks], self.done_s[ranks]
        left_s = np.maximum(0.0, parts_s - done_s)
        ready_s, known_s = at_s + left_s / speed, self.ready_s[first:, ranks]
        ready_s = np.maximum(ready_s, self._issued_ready_s(slice(first, None), ranks, speed))
        ends_by_then = (known_s == np.inf) & (ready_s <= until_s)
        self.ready_s[first:, ranks] = np.where(ends_by_then, ready_s, known_s)
        reached_s = np.minimum(done_s + (until_s - at_s) * speed, self._issued_work_s(ranks, until_s, speed))
        lost_s: np.ndarray = sm_share * (np.minimum(reached_s - done_s, left_s[-1]) / speed)
        self.done_s[ranks] = reached_s
        self.at_s[ranks] = until_s
        return lost_s

    def ready_alone_s(self, part: int, ranks: np.ndarray) -> np.ndarray:
        """Return when a part was ready, or will be at full speed from now on [len(ranks)], in seconds."""
        known_s = self.ready_s[part, ranks]
        free_s = self.at_s[ranks] + (self.parts_s[part, ranks] - self.done_s[ranks])
        part = part % len(self.parts_s)
        issued_s = self._issued_ready_s(slice(part, part + 1), ranks, np.ones(len(ranks)))
        free_s = np.maximum(free_s, issued_s[0])
        done_s: np.ndarray = np.where(known_s < np.inf, known_s, free_s)
        return done_s

    def _issued_ready_s(self, parts: slice, ranks: np.ndarray, speed: np.ndarray) -> np.ndarray:
        """Return when parts can be ready at the earliest because of the host, at this speed [num_parts, len(ranks)]."""
        parts_s = self.parts_s[parts, ranks]
        if not len(self.issued_s):
            return np.full_like(parts_s, -np.inf)
        work_s = self.issue_work_s[:, ranks]
        late_s = np.where(work_s >= self.done_s[ranks], self.issued_s[:, ranks] - work_s / speed, -np.inf)
        late_s = np.maximum.accumulate(np.concatenate([np.full((1, len(ranks)), -np.inf), late_s]), axis=0)
        ready_s: np.ndarray = np.take_along_axis(late_s, self.num_before[parts, ranks], axis=0) + parts_s / speed
        return ready_s

    def _issued_work_s(self, ranks: np.ndarray, until_s: np.ndarray, speed: np.ndarray) -> np.ndarray:
        """Return the work that the host permits until a time [len(ranks)], in seconds at full speed."""
        if not len(self.issued_s):
            return np.full(len(ranks), np.inf)
        work_s, issued_s = self.issue_work_s[:, ranks], self.issued_s[:, ranks]
        until = work_s + np.maximum(0.0, until_s - issued_s) * speed
        reached_s: np.ndarray = np.where(work_s >= self.done_s[ranks], until, np.inf).min(axis=0)
        return reached_s

    def set_issue(
        self, ranks: np.ndarray, issues: Sequence[IterationIssue | None], begun_s: np.ndarray, forward_s: np.ndarray,
        slowdown: np.ndarray,
    ) -> None:  # fmt: skip
        """Set the issue times of ranks, whose hosts began at `begun_s` and whose forward takes `forward_s` of kernels.

        `issues` [1 or len(ranks)].
        """
        for place, rank in enumerate(ranks.tolist()):
            issue = issues[0] if len(issues) == 1 else issues[place]
            if issue is None:
                continue
            first = int(issue.num_before[0])
            later = issue.passes.between(first, len(issue.passes), float(forward_s[place]))
            if len(later) > len(self.issued_s):
                more = (len(later) - len(self.issued_s), self.issued_s.shape[1])
                self.issue_work_s = np.concatenate([self.issue_work_s, np.full(more, np.inf)])
                self.issued_s = np.concatenate([self.issued_s, np.full(more, -np.inf)])
            self.issue_work_s[: len(later), rank] = later.work_s * slowdown[place]
            self.issued_s[: len(later), rank] = begun_s[place] + later.issued_s
            self.num_before[:, rank] = issue.num_before[1:] - first


class _SharedIteration(VectorizedIteration):
    """An iteration with the progress of its ranks in backward."""

    def __init__(self, num_ranks: int, number: int, num_buckets: int):
        super().__init__(num_ranks, number, num_buckets)
        self.progress = _Progress(num_buckets, num_ranks)
        self.forward_waited_s = np.zeros(num_ranks)


def _progress(iteration: VectorizedIteration) -> _Progress:
    assert isinstance(iteration, _SharedIteration)
    return iteration.progress


class VectorizedWorkersSharingSms(VectorizedWorkers):
    """Workers whose exchanges occupy multiprocessors; each leaves one before it enters the next. Paces are constant."""

    iteration_type = _SharedIteration

    def _compute(self, iteration: VectorizedIteration, ranks: np.ndarray, now_s: np.ndarray) -> None:
        """Compute forward, and record the work of backward."""
        super()._compute(iteration, ranks, now_s)
        job, progress, number = self._job, _progress(iteration), iteration.number
        begin_s, slowdown = job.times.forward_s[ranks, number], iteration.slowdown[ranks]
        plans = [job.plans(rank, number) for rank in ranks.tolist()]
        plans = plans[:1] if all(plan is plans[0] for plan in plans) else plans
        forward_s = np.array([plan.forward_s for plan in plans])
        cuts_s = np.array([plan.cuts_s for plan in plans]).T
        progress.parts_s[:, ranks] = (cuts_s[1:] - forward_s) * slowdown
        progress.at_s[ranks] = begin_s
        issues = [issue_of(job, plan, float(slowdown.min())) for plan in plans]
        progress.set_issue(ranks, issues, now_s, np.broadcast_to(forward_s, len(ranks)), slowdown)
        assert isinstance(iteration, _SharedIteration)
        iteration.forward_waited_s[ranks] = begin_s - now_s - slowdown * forward_s

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
            self._note_waits(iteration, ranks)
        super()._left(iteration, bucket, ranks)

    def _note_waits(self, iteration: VectorizedIteration, ranks: np.ndarray) -> None:
        """Note how long the GPUs of ranks that have ended backward waited for their hosts."""
        times, number, progress = self._job.times, iteration.number, _progress(iteration)
        if not len(progress.issued_s):
            return
        backward_s = iteration.computed_s[ranks] - times.forward_s[ranks, number]
        waited_s = backward_s - progress.parts_s[-1, ranks] - times.slowed_s[ranks, number]
        assert isinstance(iteration, _SharedIteration)
        times.host_s[ranks, number] = np.maximum(0.0, iteration.forward_waited_s[ranks]) + np.maximum(0.0, waited_s)

    def _catch_up(self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Compute at full speed until ranks enter the exchange of a bucket, and at reduced speed until now."""
        none, now_s = np.zeros(len(ranks)), np.full(len(ranks), float(self._job.env.now))
        _progress(iteration).compute(bucket + 1, ranks, iteration.enter_s[bucket, ranks], none)
        lost_s = _progress(iteration).compute(bucket + 1, ranks, now_s, self._rendezvous.sm_share(bucket)[ranks])
        self._job.times.slowed_s[ranks, iteration.number] += lost_s
