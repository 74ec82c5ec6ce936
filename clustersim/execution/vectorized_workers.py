"""The workers of a synchronous job as times instead of processes: the same day, without an event for each hour of it.

Nobody holds a synchronous worker up but its own buckets. So all that it computes in an iteration is known when
the iteration begins, or its samples are there, and few things are worth an event on the clock: that ranks have pushed
a bucket or are out of its exchange, together. When all that a bucket waits for on a rank is known, so is when the rank
enters, and once that is known of all ranks they are entered at once, each at its time to come. `Synchronous.iterate`
tells the same day hour by hour, which is what an exact run plays; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import simpy

from clustersim.execution.job import Job, OnProgress
from clustersim.execution.rendezvous import Rendezvous
from clustersim.execution.vectorized_iteration import VectorizedIteration
from clustersim.execution.worker import CopyIn, Process, sample_memory, send_for_samples, take_samples
from clustersim.network import Collective
from clustersim.program import Iteration

VECTORIZED = "synchronous workers' days worked out as arithmetic (a march), not played as processes"
"""What is told where workers march."""


def can_vectorize(job: Job, rendezvous: Rendezvous) -> bool:
    """Say whether what a worker computes in an iteration is known as soon as it begins to.

    Beside exchanges that hold its multiprocessors, or wait for what others compute, only where nothing else changes it.
    """
    has_samples = job.input_stage is not None
    is_held_up = (rendezvous.awaits_receivers and has_samples) or (
        rendezvous.holds and (has_samples or job.paces is not None)
    )
    return bool(job.buckets) and job.work is None and not job.network.exact and not is_held_up


class VectorizedWorkers:
    """All workers of a job that has buckets, each in its own iteration; they meet at a rendezvous for all of them."""

    rounds: type[VectorizedIteration] = VectorizedIteration

    def __init__(self, job: Job, rendezvous: Rendezvous, num_iterations: int, updates_on_gpu: bool, tell: OnProgress):
        self._job, self._rendezvous, self._tell = job, rendezvous, tell
        self._num_iterations = num_iterations
        self._updates_on_gpu = updates_on_gpu
        self._num_buckets = len(job.buckets)
        plans = (job.plans(rank, 0) for rank in range(job.num_ranks))
        copied_s = np.array([[bucket.copied_s for bucket in plan.buckets] for plan in plans]).T
        self._copied_s = copied_s if copied_s.any() else None
        self._is_staged = job.is_staged and rendezvous.goes_anywhere(0)
        self._copy_in: CopyIn | None = None  # of samples, where buckets are copied in as well
        if self._is_staged:
            self._copy_in = self._copy_samples
            gpus, hosts = ([getattr(device, name) for device in job.devices] for name in ("node", "host_memory"))
            samples = [sample_memory(job, rank) for rank in range(job.num_ranks)]
            self._out = job.network.copy_queue(gpus, hosts, job.num_ranks, self._copied_out)
            self._in = job.network.copy_queue([*hosts, *samples], gpus * 2, job.num_ranks, self._copied_in)
        self._rounds: dict[int, VectorizedIteration] = {}
        self._num_left = job.num_ranks
        self._latest_s = 0.0
        self._over = job.env.event()

    def start(self) -> simpy.Event:
        """Let all workers begin now; return an event that fires when the last of them has ended."""
        num_ranks = self._job.num_ranks
        self._begin(np.arange(num_ranks), 0, np.full(num_ranks, float(self._job.env.now)))
        return self._over

    def _begin(self, ranks: np.ndarray, iteration: int, now_s: np.ndarray) -> None:
        """Let an iteration of some ranks begin, each at its time, which may be to come."""
        if iteration == self._num_iterations:
            self._finish(len(ranks), float(now_s.max()))
            return
        self._job.times.make_room(iteration)
        around = self._rounds.get(iteration)
        if around is None:
            around = self._rounds[iteration] = self.rounds(self._job.num_ranks, iteration, self._num_buckets)
            around.copied_s = self._copied_s
        self._job.times.begin_s[ranks, iteration] = now_s
        if self._job.input_stage is None:
            self._compute(around, ranks, now_s)
            self._hand_over(around, ranks)
        else:
            for rank, time_s in zip(ranks.tolist(), now_s.tolist(), strict=True):
                self._at(time_s, self._take_samples, around, rank)

    def _take_samples(self, around: VectorizedIteration, rank: int) -> None:
        taken = take_samples(self._job, rank, self._copy_in)
        _after(self._job.env.process(taken), self._begin_with, around, rank)

    def _copy_samples(self, rank: int) -> Process:
        """Copy a batch of samples to a GPU, in its turn with buckets that are copied there."""
        job, copied = self._job, self._job.env.event()
        assert job.input_stage is not None
        self._in.send([job.num_ranks + rank], job.input_stage.copied_bytes, [job.env.now], copied)
        yield copied

    def _begin_with(self, around: VectorizedIteration, rank: int) -> None:
        """Let a rank compute whose samples are there, and have the next ones sent for when it has."""
        now_s, alone = float(self._job.env.now), np.array([rank])
        self._job.times.fetched_s[rank, around.iteration] = now_s
        self._compute(around, alone, np.array([now_s]))
        self._hand_over(around, alone)
        self._at(float(around.computed_s[rank]), send_for_samples, self._job, rank, self._copy_in)

    def _hand_over(self, around: VectorizedIteration, ranks: np.ndarray) -> None:
        """Let buckets set off as they are ready, whose times are all known."""
        if self._is_staged:
            self._copy_out(around, 0, ranks)
        elif self._rendezvous.awaits_receivers:
            for rank in ranks.tolist():
                self._at(float(self._job.times.begin_s[rank, around.iteration]), self._begun, around, rank)
        else:
            for bucket in range(self._num_buckets):
                self._clear(around, bucket, ranks, around.ready_s[bucket, ranks])

    def _begun(self, around: VectorizedIteration, rank: int) -> None:
        """Let a rank's buckets set off as they are ready, and as those that get them have computed who began before."""
        for bucket in range(self._num_buckets):
            ahead = self._rendezvous.receivers_ahead((rank, around.iteration, bucket))
            ready_s = max([float(around.ready_s[bucket, rank]), *around.computed_s[ahead].tolist()])
            self._clear(around, bucket, np.array([rank]), ready_s)

    def _compute(self, around: VectorizedIteration, ranks: np.ndarray, now_s: np.ndarray) -> None:
        """Go forward and backward through the model."""
        job, times, iteration = self._job, self._job.times, around.iteration
        around.slowdown[ranks] = [job.slowdown(rank, iteration) for rank in ranks.tolist()]
        work_s = _work_s([job.plans(rank, iteration) for rank in ranks.tolist()])
        around.update_s[ranks] = work_s[-1]
        ends_s = self._after_each(around, ranks, now_s, work_s[:-1])
        times.forward_s[ranks, iteration] = ends_s[0]
        around.ready_s[:, ranks] = ends_s[1:-1]
        times.computed_s[ranks, iteration] = around.computed_s[ranks] = ends_s[-1]

    def _after_each(
        self, around: VectorizedIteration, ranks: np.ndarray, start_s: np.ndarray, work_s: np.ndarray
    ) -> np.ndarray:
        """Return when each part of work is done, one after another [num_parts, len(ranks)]."""
        if self._job.paces is None:
            parts_s = np.concatenate([start_s[None], work_s * around.slowdown[ranks]])
            ends_s: np.ndarray = np.add.accumulate(parts_s)[1:]
            return ends_s
        ends_s = np.empty((len(work_s), len(ranks)))
        for number, part_s in enumerate(work_s):
            start_s = ends_s[number] = self._after_work(around, ranks, start_s, part_s)
        return ends_s

    def _after_work(
        self, around: VectorizedIteration, ranks: np.ndarray, start_s: np.ndarray, work_s: np.ndarray
    ) -> np.ndarray:
        """Return when work is done that begins at these times, at the round's slowdown and the ranks' paces."""
        seconds, paces = work_s * around.slowdown[ranks], self._job.paces
        if paces is not None:
            rows = zip(ranks.tolist(), start_s.tolist(), seconds.tolist(), strict=True)
            seconds = np.array([paces[rank].end_s(start, work) - start for rank, start, work in rows])
        done_s: np.ndarray = start_s + seconds
        return done_s

    def _clear(self, around: VectorizedIteration, bucket: int, ranks: np.ndarray, times_s: np.ndarray | float) -> None:
        """Note one of the two things that a bucket waits for; after both it may enter, now or later.

        All enter at once when it is known of the last when it may, or else when the first does.
        """
        if around.clear(bucket, ranks, times_s):
            if around.is_open[bucket] or not around.num_unknown[bucket]:
                self._enter(around, bucket)
            else:
                first_s = float(around.enter_s[bucket, around.is_waiting[bucket]].min())
                if first_s < around.alarm_s[bucket]:
                    around.alarm_s[bucket] = first_s
                    self._at(first_s, self._open, around, bucket)

    def _open(self, around: VectorizedIteration, bucket: int) -> None:
        """Let those enter who are known to, since the first of them does so now."""
        if not around.is_open[bucket]:
            self._enter(around, bucket)

    def _enter(self, around: VectorizedIteration, bucket: int) -> None:
        """Let those who wait to enter the exchange of a bucket do so at their times."""
        is_first, ranks = not around.is_open[bucket], around.take_waiting(bucket)
        collective = self._rendezvous.enter_each(ranks, around.enter_s[bucket, ranks], around.iteration, bucket)
        if is_first:
            self._watch(around, bucket, collective)

    def _watch(self, around: VectorizedIteration, bucket: int, collective: Collective) -> None:
        """Ask at once for what all ranks wait for in an exchange."""
        everybody, num_steps = range(self._job.num_ranks), collective.schedule.num_steps
        follow, is_followed = self._rendezvous.follow(bucket), bucket + 1 < self._num_buckets
        is_pushed_before = is_followed and follow < num_steps

        def pushed(ranks: list[int]) -> None:
            self._pushed(around, bucket, np.array(ranks))

        def left(ranks: list[int]) -> None:
            if is_followed and not is_pushed_before:
                pushed(ranks)
            self._left(around, bucket, np.array(ranks))

        if is_pushed_before:
            collective.watch(everybody, follow, pushed)
        collective.watch(everybody, num_steps, left)

    def _pushed(self, around: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Let the next bucket follow, when it is ready."""
        self._clear(around, bucket + 1, ranks, self._job.env.now)

    def _left(self, around: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Let ranks have a bucket out of the exchange, and copied in where the transport stages on the host."""
        around.left_s[bucket, ranks] = self._job.env.now
        if not self._is_staged:
            self._back(around, bucket, ranks)
            return
        num_bytes = self._job.buckets[bucket].num_bytes * self._job.wire.back_per_byte
        self._in.send(ranks.tolist(), num_bytes, [self._job.env.now] * len(ranks), (around, bucket))

    def _copy_out(self, around: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Let a bucket be copied to the hosts when it is ready."""
        ready_s = around.ready_s[bucket, ranks].tolist()
        self._out.send(ranks.tolist(), self._job.buckets[bucket].num_bytes, ready_s, (around, bucket))

    def _copied_out(self, which: tuple[VectorizedIteration, int], copied: list[int]) -> None:
        (around, bucket), ranks = which, np.array(copied)
        self._clear(around, bucket, ranks, self._job.env.now)
        if bucket + 1 < self._num_buckets:
            self._copy_out(around, bucket + 1, ranks)

    def _copied_in(self, which: tuple[VectorizedIteration, int] | simpy.Event, copied: list[int]) -> None:
        if isinstance(which, simpy.Event):
            which.succeed()
        else:
            self._back(*which, np.array(copied))

    def _back(self, around: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        ended = around.back(bucket, ranks, self._job.env.now)
        if len(ended):
            self._end(around, ended)

    def _end(self, around: VectorizedIteration, ranks: np.ndarray) -> None:
        """Let ranks whose buckets are back update, note their iteration down, and go on with the next."""
        times, iteration = self._job.times, around.iteration
        end_s = np.maximum(self._job.env.now, around.computed_s[ranks])
        times.exchanged_s[ranks, iteration] = end_s
        if self._updates_on_gpu:
            end_s = self._after_work(around, ranks, end_s, around.update_s[ranks])
        self._job.note_end(ranks, iteration, end_s)
        for name in ("ready_s", "enter_s", "left_s", "back_s"):
            getattr(times, name)[ranks, iteration] = getattr(around, name)[:, ranks].T
        if not around.num_inside:
            del self._rounds[iteration]
        if ranks[0] == 0 or 0 in ranks:
            self._tell((iteration + 1) / self._num_iterations)
        self._begin(ranks, iteration + 1, end_s)

    def _finish(self, num_ranks: int, end_s: float) -> None:
        """Let ranks go home; the job is over when the last one's last update has ended."""
        self._latest_s = max(self._latest_s, end_s)
        self._num_left -= num_ranks
        if not self._num_left:
            self._at(self._latest_s, self._over.succeed)

    def _at(self, time_s: float, act: Callable[..., object], *arguments: object) -> None:
        """Act at a time, or now where that is past by a rounding."""
        env = self._job.env
        _after(env.timeout(max(0.0, time_s - env.now)), act, *arguments)


def _work_s(plans: list[Iteration]) -> np.ndarray:
    """Return the work between what is noted, at full speed: forward, backward to each bucket, the rest, the update.

    [2 + num_buckets + 1, num_ranks], or [..., 1] where all ranks have one plan.
    """
    if all(plan is plans[0] for plan in plans):
        plans = plans[:1]
    ready_s = np.array([[bucket.ready_s for bucket in plan.buckets] for plan in plans])
    backward_s = np.array([max(plan.backward_s, plan.buckets[-1].ready_s) for plan in plans])
    parts_s = np.diff(ready_s, axis=1, prepend=0.0, append=backward_s[:, None])
    ends = ([[plan.forward_s for plan in plans]], parts_s.T, [[plan.update_s for plan in plans]])
    return np.concatenate(ends)


def _after(event: simpy.Event, act: Callable[..., object], *arguments: object) -> None:
    """Act when an event happens."""

    def happened(event: simpy.Event) -> None:
        act(*arguments)

    event.callbacks.append(happened)
