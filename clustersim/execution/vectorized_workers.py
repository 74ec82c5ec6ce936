"""All workers of a synchronous job as arrays of times, instead of one SimPy process for each of them.

A synchronous worker waits for nothing but its own buckets. So all its compute times are known when the iteration
begins, or when its samples arrive. Few moments need an event on the clock: that ranks have pushed a bucket, or have
ended its exchange, many ranks at once. When both events that a bucket of a rank waits for are known, so is the time at
which the rank enters the exchange. When that is known of all ranks, all enter in one call, each at its own future time.

`Synchronous.iterate` does the same event by event, as a process for each rank. An exact run uses that, and a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import simpy

from clustersim.execution.job import Job, OnProgress
from clustersim.execution.rendezvous import Rendezvous
from clustersim.execution.vectorized_iteration import VectorizedIteration
from clustersim.execution.worker import (
    CopyIn,
    Process,
    copy_next_samples,
    issue_of,
    sample_memory,
    wait_for_samples,
)
from clustersim.network import Collective
from clustersim.program import Iteration
from clustersim.program.issue import IterationIssue
from clustersim.stragglers import Pace

VECTORIZED = "synchronous workers computed in arrays, not simulated as processes"
"""The shortcut that a result names where workers are vectorized."""


def can_vectorize(job: Job, rendezvous: Rendezvous) -> bool:
    """Say whether the compute times of an iteration are known as soon as a worker begins it.

    They are not in an exact run, for ranks of a layout, and without buckets. An exchange that occupies multiprocessors
    is allowed only where input and paces do not change the speed as well; one that waits for what its receivers compute
    only without input.
    """
    has_samples = job.input_stage is not None
    has_unknown_delays = (rendezvous.awaits_receivers and has_samples) or (
        rendezvous.shares_sms and (has_samples or job.paces is not None)
    )
    return bool(job.buckets) and job.work is None and not job.network.exact and not has_unknown_delays


class VectorizedWorkers:
    """All workers of a job that has buckets. Each may be in an iteration of its own.

    All of them exchange buckets at `rendezvous` and run `num_iterations` iterations. `on_progress` is called with the
    share of these that are done.
    """

    iteration_type: type[VectorizedIteration] = VectorizedIteration

    def __init__(
        self, job: Job, rendezvous: Rendezvous, num_iterations: int, updates_on_gpu: bool, on_progress: OnProgress
    ):
        self._job, self._rendezvous, self._on_progress = job, rendezvous, on_progress
        self._num_iterations = num_iterations
        self._updates_on_gpu = updates_on_gpu
        self._num_buckets = len(job.buckets)
        plans = (job.plans(rank, 0) for rank in range(job.num_ranks))
        copied_s = np.array([[bucket.copied_s for bucket in plan.buckets] for plan in plans]).T
        self._copied_s = copied_s if copied_s.any() else None
        self._is_staged = job.is_staged and rendezvous.leaves_worker(0)
        self._copy_samples_in: CopyIn | None = None  # set where buckets are copied in by the same engine
        if self._is_staged:
            self._copy_samples_in = self._copy_samples
            gpus, hosts = ([getattr(device, name) for device in job.devices] for name in ("node", "host_memory"))
            samples = [sample_memory(job, rank) for rank in range(job.num_ranks)]
            self._out = job.network.copy_queue(gpus, hosts, job.num_ranks, self._copied_out)
            self._in = job.network.copy_queue([*hosts, *samples], gpus * 2, job.num_ranks, self._copied_in)
        self._iterations: dict[int, VectorizedIteration] = {}  # that some ranks have begun and not all have ended
        self._num_left = job.num_ranks
        self._latest_s = 0.0
        self._done = job.env.event()

    def start(self) -> simpy.Event:
        """Let all workers begin now; return an event that fires when the last one has ended its last iteration."""
        num_ranks = self._job.num_ranks
        self._begin(np.arange(num_ranks), 0, np.full(num_ranks, float(self._job.env.now)))
        return self._done

    def _begin(self, ranks: np.ndarray, number: int, now_s: np.ndarray) -> None:
        """Begin an iteration of ranks [n], each at its own time [n], past or future."""
        if number == self._num_iterations:
            self._finish(len(ranks), float(now_s.max()))
            return
        self._job.times.extend_to(number)
        iteration = self._iterations.get(number)
        if iteration is None:
            iteration = self.iteration_type(self._job.num_ranks, number, self._num_buckets)
            iteration.copied_s = self._copied_s
            self._iterations[number] = iteration
        self._job.times.begin_s[ranks, number] = now_s
        if self._job.input_stage is None:
            self._compute(iteration, ranks, now_s)
            self._send_buckets(iteration, ranks)
        else:
            for rank, time_s in zip(ranks.tolist(), now_s.tolist(), strict=True):
                self._at(time_s, self._wait_for_samples, iteration, rank)

    def _wait_for_samples(self, iteration: VectorizedIteration, rank: int) -> None:
        samples = wait_for_samples(self._job, rank, self._copy_samples_in)
        _when_fired(self._job.env.process(samples), self._begin_with_samples, iteration, rank)

    def _copy_samples(self, rank: int) -> Process:
        """Copy a batch of samples to a GPU, in the same queue as buckets that are copied there."""
        job, copied = self._job, self._job.env.event()
        assert job.input_stage is not None
        self._in.send([job.num_ranks + rank], job.input_stage.copied_bytes, [job.env.now], copied)
        yield copied

    def _begin_with_samples(self, iteration: VectorizedIteration, rank: int) -> None:
        """Let a rank compute whose samples have arrived. Its next samples are copied when it has computed."""
        now_s, alone = float(self._job.env.now), np.array([rank])
        self._job.times.fetched_s[rank, iteration.number] = now_s
        self._compute(iteration, alone, np.array([now_s]))
        self._send_buckets(iteration, alone)
        self._at(float(iteration.computed_s[rank]), copy_next_samples, self._job, rank, self._copy_samples_in)

    def _compute(self, iteration: VectorizedIteration, ranks: np.ndarray, now_s: np.ndarray) -> None:
        """Compute forward and backward: record the times of both, and of each bucket."""
        job, times, number = self._job, self._job.times, iteration.number
        iteration.slowdown[ranks] = [job.slowdown(rank, number) for rank in ranks.tolist()]
        plans = [job.plans(rank, number) for rank in ranks.tolist()]
        plans = plans[:1] if all(plan is plans[0] for plan in plans) else plans
        work_s = _work_s(plans)
        iteration.update_s[ranks] = work_s[-1]
        issues = [issue_of(job, plan, float(iteration.slowdown[ranks].min())) for plan in plans]
        ends_s = self._ends_s(iteration, ranks, now_s, work_s[:-1], issues)
        iteration.note_issue(ranks, now_s, issues)
        times.forward_s[ranks, number] = ends_s[0]
        iteration.ready_s[:, ranks] = ends_s[1:-1]
        times.computed_s[ranks, number] = iteration.computed_s[ranks] = ends_s[-1]

    def _ends_s(
        self,
        iteration: VectorizedIteration,
        ranks: np.ndarray,
        start_s: np.ndarray,
        work_s: np.ndarray,
        issues: Sequence[IterationIssue | None],
    ) -> np.ndarray:
        """Return the ends of parts of work, one after the other [num_parts, len(ranks)], in seconds.

        `issues` [1 or len(ranks)] say when the hosts have issued the work, which begin with it.
        """
        if any(issue is not None for issue in issues):
            return self._issued_ends_s(iteration, ranks, start_s, work_s, issues)
        if self._job.paces is None:
            parts_s = np.concatenate([start_s[None], work_s * iteration.slowdown[ranks]])
            ends_s: np.ndarray = np.add.accumulate(parts_s)[1:]
            return ends_s
        ends_s = np.empty((len(work_s), len(ranks)))
        for number, part_s in enumerate(work_s):
            start_s = ends_s[number] = self._end_s(iteration, ranks, start_s, part_s)
        return ends_s

    def _issued_ends_s(
        self,
        iteration: VectorizedIteration,
        ranks: np.ndarray,
        start_s: np.ndarray,
        work_s: np.ndarray,
        issues: Sequence[IterationIssue | None],
    ) -> np.ndarray:
        """Return the ends of parts of work that hosts issue [num_parts, len(ranks)]; note the waits for the hosts."""
        slowdown, paces = iteration.slowdown[ranks], self._job.paces
        cuts_s = np.add.accumulate(work_s)
        if paces is not None:
            columns = [
                _paced_ends_s(paces[rank], *each)
                for rank, *each in zip(
                    ranks.tolist(), start_s.tolist(), slowdown.tolist(), _columns(cuts_s, len(ranks)),
                    _for_each(issues, len(ranks)), strict=True,
                )
            ]  # fmt: skip
            ends_s, waited_s = (np.array(rows).T for rows in zip(*columns, strict=True))
        elif len(issues) == 1 and issues[0] is not None:
            ends_s = issues[0].cut_ends_s(cuts_s, start_s, slowdown, start_s)
            waited_s = ends_s[-1] - start_s - slowdown * cuts_s[-1]
        else:
            ends_s = np.empty((len(cuts_s), len(ranks)))
            for place, (column, issue) in enumerate(
                zip(_columns(cuts_s, len(ranks)), _for_each(issues, len(ranks)), strict=True)
            ):
                own, one = start_s[place : place + 1], slowdown[place : place + 1]
                found = (own + one * column[:, None]) if issue is None else issue.cut_ends_s(column, own, one, own)
                ends_s[:, place] = found[:, 0]
            waited_s = ends_s[-1] - start_s - slowdown * cuts_s[-1]
        self._job.times.host_s[ranks, iteration.number] += np.maximum(0.0, waited_s)
        return ends_s

    def _end_s(
        self, iteration: VectorizedIteration, ranks: np.ndarray, start_s: np.ndarray, work_s: np.ndarray
    ) -> np.ndarray:
        """Return the end of work that starts at `start_s`, at the iteration's slowdown and the paces [len(ranks)]."""
        seconds, paces = work_s * iteration.slowdown[ranks], self._job.paces
        if paces is not None:
            rows = zip(ranks.tolist(), start_s.tolist(), seconds.tolist(), strict=True)
            seconds = np.array([paces[rank].end_s(start, work) - start for rank, start, work in rows])
        done_s: np.ndarray = start_s + seconds
        return done_s

    def _send_buckets(self, iteration: VectorizedIteration, ranks: np.ndarray) -> None:
        """Send all buckets, each when it is ready; the times of all are known."""
        if self._is_staged:
            self._copy_out(iteration, 0, ranks)
        elif self._rendezvous.awaits_receivers:
            for rank in ranks.tolist():
                begin_s = float(self._job.times.begin_s[rank, iteration.number])
                self._at(begin_s, self._send_after_receivers, iteration, rank)
        else:
            for bucket in range(self._num_buckets):
                self._note_event(iteration, bucket, ranks, iteration.ready_s[bucket, ranks])

    def _send_after_receivers(self, iteration: VectorizedIteration, rank: int) -> None:
        """Send a rank's buckets when they are ready, and when receivers that began before the rank have computed."""
        for bucket in range(self._num_buckets):
            receivers = self._rendezvous.receivers_ahead((rank, iteration.number, bucket))
            ready_s = max([float(iteration.ready_s[bucket, rank]), *iteration.computed_s[receivers].tolist()])
            self._note_event(iteration, bucket, np.array([rank]), ready_s)

    def _copy_out(self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Copy a bucket to the hosts when it is ready."""
        ready_s = iteration.ready_s[bucket, ranks].tolist()
        self._out.send(ranks.tolist(), self._job.buckets[bucket].num_bytes, ready_s, (iteration, bucket))

    def _copied_out(self, key: tuple[VectorizedIteration, int], copied: list[int]) -> None:
        (iteration, bucket), ranks = key, np.array(copied)
        self._note_event(iteration, bucket, ranks, self._job.env.now)
        if bucket + 1 < self._num_buckets:
            self._copy_out(iteration, bucket + 1, ranks)

    def _note_event(
        self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray, times_s: np.ndarray | float
    ) -> None:
        """Note one of the two events that a bucket waits for; after both it may enter its exchange, now or later.

        Ranks are passed to the collective when the entry of all is known, or else when the first of them enters.
        """
        if iteration.note_event(bucket, ranks, times_s):
            if iteration.is_open[bucket] or not iteration.num_unknown[bucket]:
                self._enter(iteration, bucket)
            else:
                first_s = float(iteration.enter_s[bucket, iteration.is_waiting[bucket]].min())
                if first_s < iteration.alarm_s[bucket]:
                    iteration.alarm_s[bucket] = first_s
                    self._at(first_s, self._enter_first, iteration, bucket)

    def _enter_first(self, iteration: VectorizedIteration, bucket: int) -> None:
        """Enter the ranks whose entries are known, because the first of them enters now."""
        if not iteration.is_open[bucket]:
            self._enter(iteration, bucket)

    def _enter(self, iteration: VectorizedIteration, bucket: int) -> None:
        """Enter the waiting ranks into the exchange of a bucket, each at its own time."""
        is_first, ranks = not iteration.is_open[bucket], iteration.take_waiting(bucket)
        times_s = iteration.enter_s[bucket, ranks]
        collective = self._rendezvous.enter_each(ranks, times_s, iteration.number, bucket)
        if is_first:
            self._watch(iteration, bucket, collective)

    def _watch(self, iteration: VectorizedIteration, bucket: int, collective: Collective) -> None:
        """Ask a collective at once for all the steps that the ranks wait for: the push step and the end."""
        all_ranks, num_steps = range(self._job.num_ranks), collective.schedule.num_steps
        push_step, has_next = self._rendezvous.push_step(bucket), bucket + 1 < self._num_buckets
        is_pushed_before_end = has_next and push_step < num_steps

        def pushed(ranks: list[int]) -> None:
            self._pushed(iteration, bucket, np.array(ranks))

        def left(ranks: list[int]) -> None:
            if has_next and not is_pushed_before_end:
                pushed(ranks)
            self._left(iteration, bucket, np.array(ranks))

        if is_pushed_before_end:
            collective.watch(all_ranks, push_step, pushed)
        collective.watch(all_ranks, num_steps, left)

    def _pushed(self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """Let the next bucket of ranks follow, when it is ready."""
        self._note_event(iteration, bucket + 1, ranks, self._job.env.now)

    def _left(self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        """End the exchange of a bucket at ranks; copy it to the GPU where the transport stages on the host."""
        iteration.left_s[bucket, ranks] = self._job.env.now
        if not self._is_staged:
            self._back(iteration, bucket, ranks)
            return
        num_bytes = self._job.buckets[bucket].num_bytes * self._job.wire.back_per_byte
        self._in.send(ranks.tolist(), num_bytes, [self._job.env.now] * len(ranks), (iteration, bucket))

    def _copied_in(self, key: tuple[VectorizedIteration, int] | simpy.Event, copied: list[int]) -> None:
        """Go on after a copy to GPUs: of a bucket, or of samples whose event is given."""
        if isinstance(key, simpy.Event):
            key.succeed()
        else:
            self._back(*key, np.array(copied))

    def _back(self, iteration: VectorizedIteration, bucket: int, ranks: np.ndarray) -> None:
        ended = iteration.note_back(bucket, ranks, self._job.env.now)
        if len(ended):
            self._end(iteration, ended)

    def _end(self, iteration: VectorizedIteration, ranks: np.ndarray) -> None:
        """Update at ranks whose buckets are all back, record their iteration, and begin the next one."""
        times, number = self._job.times, iteration.number
        end_s = np.maximum(self._job.env.now, iteration.computed_s[ranks])
        times.exchanged_s[ranks, number] = end_s
        if self._updates_on_gpu:
            start_s = end_s
            end_s = self._end_s(iteration, ranks, start_s, iteration.update_s[ranks])
            if iteration.issues:
                end_s = self._issued_update_s(iteration, ranks, start_s, end_s)
        self._job.note_end(ranks, number, end_s)
        for name in ("ready_s", "enter_s", "left_s", "back_s"):
            getattr(times, name)[ranks, number] = getattr(iteration, name)[:, ranks].T
        if not iteration.num_running:
            del self._iterations[number]
        if ranks[0] == 0 or 0 in ranks:
            self._on_progress((number + 1) / self._num_iterations)
        self._begin(ranks, number + 1, end_s)

    def _issued_update_s(
        self, iteration: VectorizedIteration, ranks: np.ndarray, start_s: np.ndarray, unissued_s: np.ndarray
    ) -> np.ndarray:
        """Return the ends of updates that start at `start_s`, given those without a wait for the host [len(ranks)]."""
        end_s, paces = unissued_s.copy(), self._job.paces
        for place, rank in enumerate(ranks.tolist()):
            if (found := iteration.issues.pop(rank, None)) is None:
                continue
            issue, begun_s = found
            host_s, slowdown = begun_s + issue.passes.host_s, float(iteration.slowdown[rank])
            work_s, first_s = float(iteration.update_s[rank]), float(start_s[place])
            if not len(issue.update) or host_s + issue.update.host_s <= first_s:
                continue
            if paces is None:
                end_s[place] = issue.update.end_s(first_s, host_s, work_s, slowdown)
                waited_s = end_s[place] - first_s - slowdown * work_s
            else:
                ends_s, waited_s = _paced(paces[rank], first_s, host_s, slowdown, [work_s], issue.update.rows, [None])
                end_s[place] = ends_s[0]
            self._job.times.host_s[rank, iteration.number] += max(0.0, waited_s)
        return end_s

    def _finish(self, num_ranks: int, end_s: float) -> None:
        """Count ranks that have ended; the job is done at the end of the last update of the last rank."""
        self._latest_s = max(self._latest_s, end_s)
        self._num_left -= num_ranks
        if not self._num_left:
            self._at(self._latest_s, self._done.succeed)

    def _at(self, time_s: float, act: Callable[..., object], *arguments: object) -> None:
        """Call a function at a time, or now if that is past by a rounding error."""
        env = self._job.env
        _when_fired(env.timeout(max(0.0, time_s - env.now)), act, *arguments)


def _work_s(plans: list[Iteration]) -> np.ndarray:
    """Return the seconds of work at full speed: forward, backward up to each bucket, rest of backward, update.

    [2 + num_buckets + 1, num_ranks], or [..., 1] where all ranks have the same plan.
    """
    ready_s = np.array([[bucket.ready_s for bucket in plan.buckets] for plan in plans])
    backward_s = np.array([max(plan.backward_s, plan.buckets[-1].ready_s) for plan in plans])
    parts_s = np.diff(ready_s, axis=1, prepend=0.0, append=backward_s[:, None])
    ends = ([[plan.forward_s for plan in plans]], parts_s.T, [[plan.update_s for plan in plans]])
    return np.concatenate(ends)


def _columns(table: np.ndarray, num: int) -> list[np.ndarray]:
    """Return the columns of a table [n, num], or the same one `num` times [n, 1]."""
    return list(np.broadcast_to(table, (len(table), num)).T)


def _for_each(issues: Sequence[IterationIssue | None], num: int) -> Sequence[IterationIssue | None]:
    """Return one for each of `num` ranks, of [num] or [1]."""
    return issues if len(issues) == num else [issues[0]] * num


def _paced_ends_s(
    pace: Pace, start_s: float, slowdown: float, cuts_s: np.ndarray, issue: IterationIssue | None
) -> tuple[list[float], float]:
    """Return the ends of work up to each cut at a pace that changes [num_cuts], and the waits for the host."""
    rows, num_before = ([], [0] * len(cuts_s)) if issue is None else (issue.passes.rows, issue.num_before.tolist())
    return _paced(pace, start_s, start_s, slowdown, cuts_s.tolist(), rows, num_before)


def _paced(
    pace: Pace,
    start_s: float,
    host_s: float,
    slowdown: float,
    cuts_s: Sequence[float],
    rows: Sequence[tuple[float, float]],
    num_before: Sequence[int | None],
) -> tuple[list[float], float]:
    """Return the ends of work that starts at `start_s` up to each cut, and the waits for a host that is at `host_s`.

    `rows` are pairs of seconds of kernels and of the host; the first `num_before` of them come before each cut, all
    where that is None.
    """
    now_s, done_s, waited_s, row, ends_s = start_s, 0.0, 0.0, 0, []
    for cut_s, end in zip(cuts_s, num_before, strict=True):
        for work_s, issued_s in rows[row:end]:
            now_s, done_s = pace.end_s(now_s, (work_s - done_s) * slowdown), work_s
            waited_s += max(0.0, host_s + issued_s - now_s)
            now_s = max(now_s, host_s + issued_s)
        row = len(rows) if end is None else end
        now_s, done_s = pace.end_s(now_s, (cut_s - done_s) * slowdown), cut_s
        ends_s.append(now_s)
    return ends_s, waited_s


def _when_fired(event: simpy.Event, act: Callable[..., object], *arguments: object) -> None:
    """Call a function when an event fires."""

    def fired(event: simpy.Event) -> None:
        act(*arguments)

    event.callbacks.append(fired)
