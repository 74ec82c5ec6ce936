"""The workers of a synchronous job as times instead of processes: the same day, without an event for each hour of it.

Nobody holds a synchronous worker up but its own buckets. So all that it computes in an iteration is known when
the iteration begins, and few things are worth an event on the clock: that a bucket sets off, for all ranks together
that do so at one time, and that a rank's bucket has been pushed or is out of its exchange. `Synchronous.iterate`
tells the same day hour by hour, which is what an exact run plays; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable

import simpy

from clustersim.program import Iteration
from clustersim.strategies.desk import Desk
from clustersim.strategies.job import Job
from clustersim.strategies.strategy import Tell

_Act = Callable[[list["_Day"], int, int], None]
"""Does something for ranks that do it together: (their days, iteration, bucket)."""

_Key = tuple[float, _Act, int, int]


class _Day:
    """One iteration of one rank: when its buckets are ready, entered, left and were back, and what is to come.

    A bucket enters when two things have happened: it is ready (and copied to the host, where the transport
    stages there), and the one before it has been pushed. `num_missing` counts those that have not; the later of
    those that have was at `clear_s`.
    """

    __slots__ = (
        *["back_s", "clear_s", "computed_s", "enter_s", "iteration", "left_s", "num_missing", "num_out", "plan"],
        *["rank", "ready_s", "slowdown"],
    )

    def __init__(self, rank: int, iteration: int, plan: Iteration, slowdown: float):
        num = len(plan.buckets)
        self.rank, self.iteration, self.plan, self.slowdown = rank, iteration, plan, slowdown
        self.computed_s = 0.0
        self.ready_s, self.enter_s, self.left_s, self.back_s = [0.0] * num, [0.0] * num, [0.0] * num, [0.0] * num
        self.clear_s = [0.0] * num
        self.num_missing = [1] + [2] * (num - 1)
        self.num_out = num


class March:
    """All workers of a job, each in its own iteration; they meet at a desk for all of them."""

    def __init__(self, job: Job, desk: Desk, num_iterations: int, updates_on_gpu: bool, tell: Tell):
        self._job, self._desk, self._tell = job, desk, tell
        self._num_iterations = num_iterations
        self._updates_on_gpu = updates_on_gpu
        self._num_buckets = len(job.buckets)
        self._is_staged = job.is_staged and self._num_buckets > 0 and desk.goes_anywhere(0)
        self._together: dict[_Key, list[_Day]] = {}
        self._num_left = job.num_ranks
        self._latest_s = 0.0
        self._over = job.env.event()

    def start(self) -> simpy.Event:
        """Let all workers begin now; return an event that fires when the last of them has ended."""
        for rank in range(self._job.num_ranks):
            self._begin(rank, 0, self._job.env.now)
        return self._over

    def _begin(self, rank: int, iteration: int, now_s: float) -> None:
        """Let a rank's iteration begin, now or later; without buckets nothing holds the rank up."""
        job = self._job
        while iteration < self._num_iterations:
            job.times.make_room(iteration)
            day = _Day(rank, iteration, job.plans(rank, iteration), job.slowdown(rank, iteration))
            self._compute(day, now_s)
            if self._num_buckets:
                self._set_off(day)
                return
            now_s = self._end(day, now_s)
            iteration += 1
        self._finish(now_s)

    def _compute(self, day: _Day, now_s: float) -> None:
        """Go forward and backward through the model."""
        times, plan, here = self._job.times, day.plan, (day.rank, day.iteration)
        times.begin_s[here] = now_s
        now_s = self._after_work(day, now_s, plan.forward_s)
        times.forward_s[here] = now_s
        done_s = 0.0
        for number, bucket in enumerate(plan.buckets):
            now_s = day.ready_s[number] = self._after_work(day, now_s, bucket.ready_s - done_s)
            done_s = bucket.ready_s
        if plan.backward_s > done_s:
            now_s = self._after_work(day, now_s, plan.backward_s - done_s)
        times.computed_s[here] = day.computed_s = now_s

    def _after_work(self, day: _Day, start_s: float, work_s: float) -> float:
        """Return when work is done that begins at a time, at the day's slowdown and the rank's pace."""
        seconds, paces = work_s * day.slowdown, self._job.paces
        if paces is not None:
            seconds = paces[day.rank].end_s(start_s, seconds) - start_s
        return start_s + seconds

    def _set_off(self, day: _Day) -> None:
        """Let the first bucket be copied out, and after it the others; or let all enter as soon as they may."""
        if self._is_staged:
            self._at(day.ready_s[0], self._copy_out, day, 0)
        else:
            for bucket, ready_s in enumerate(day.ready_s):
                self._clear(day, bucket, ready_s)

    def _at(self, time_s: float, act: _Act, day: _Day, bucket: int) -> None:
        """Let a rank act at a time that is not before now, together with all that do the same then."""
        key = (time_s, act, day.iteration, bucket)
        together = self._together.get(key)
        if together is not None:
            together.append(day)
            return
        self._together[key] = [day]
        env = self._job.env
        _after(env.timeout(max(0.0, time_s - env.now)), self._act_together, key)

    def _act_together(self, key: _Key) -> None:
        _, act, iteration, bucket = key
        act(self._together.pop(key), iteration, bucket)

    def _clear(self, day: _Day, bucket: int, time_s: float) -> None:
        """Note one of the two things that a bucket waits for; after both it enters."""
        if time_s > day.clear_s[bucket]:
            day.clear_s[bucket] = time_s
        day.num_missing[bucket] -= 1
        if not day.num_missing[bucket]:
            self._at(day.clear_s[bucket], self._enter, day, bucket)

    def _enter(self, days: list[_Day], iteration: int, bucket: int) -> None:
        """Let ranks enter the exchange of a bucket, and wait at once for all that they wait for in it."""
        now_s, follow = self._job.env.now, self._desk.follow(bucket)
        collective = self._desk.enter_together([day.rank for day in days], iteration, bucket)
        is_followed = bucket + 1 < self._num_buckets
        is_pushed_before = is_followed and follow < collective.schedule.num_steps
        by_rank = {day.rank: day for day in days}
        for day in days:
            day.enter_s[bucket] = now_s

        def pushed(ranks: list[int]) -> None:
            for rank in ranks:
                self._clear(by_rank[rank], bucket + 1, self._job.env.now)

        def left(ranks: list[int]) -> None:
            if is_followed and not is_pushed_before:
                pushed(ranks)
            for rank in ranks:
                self._left(by_rank[rank], bucket)

        if is_pushed_before:
            collective.watch([*by_rank], follow, pushed)
        collective.watch([*by_rank], collective.schedule.num_steps, left)

    def _left(self, day: _Day, bucket: int) -> None:
        """Let a rank have its bucket out of the exchange, and copied in where the transport stages on the host."""
        day.left_s[bucket] = self._job.env.now
        if self._is_staged:
            num_bytes = day.plan.buckets[bucket].num_bytes * self._job.wire.back_per_byte
            copying = self._job.devices[day.rank].copy_in(num_bytes)
            _after(self._job.env.process(copying), self._back, day, bucket)
        else:
            self._back(day, bucket)

    def _copy_out(self, days: list[_Day], iteration: int, bucket: int) -> None:
        for day in days:
            copying = self._job.devices[day.rank].copy_out(day.plan.buckets[bucket].num_bytes)
            _after(self._job.env.process(copying), self._copied_out, day, bucket)

    def _copied_out(self, day: _Day, bucket: int) -> None:
        now_s = self._job.env.now
        self._clear(day, bucket, now_s)
        if bucket + 1 < self._num_buckets:
            self._at(max(now_s, day.ready_s[bucket + 1]), self._copy_out, day, bucket + 1)

    def _back(self, day: _Day, bucket: int) -> None:
        day.back_s[bucket] = now_s = self._job.env.now
        day.num_out -= 1
        if not day.num_out:
            self._begin(day.rank, day.iteration + 1, self._end(day, now_s))

    def _end(self, day: _Day, now_s: float) -> float:
        """Let a rank whose buckets are back update, and note its iteration down; return when that has ended."""
        times, here = self._job.times, (day.rank, day.iteration)
        times.exchanged_s[here] = end_s = max(now_s, day.computed_s)
        if self._updates_on_gpu:
            end_s = self._after_work(day, end_s, day.plan.update_s)
        times.end_s[here] = end_s
        times.ready_s[here], times.enter_s[here] = day.ready_s, day.enter_s
        times.left_s[here], times.back_s[here] = day.left_s, day.back_s
        if day.rank == 0:
            self._tell((day.iteration + 1) / self._num_iterations)
        return end_s

    def _finish(self, end_s: float) -> None:
        """Let a rank go home; the job is over when the last one's last update has ended."""
        self._latest_s = max(self._latest_s, end_s)
        self._num_left -= 1
        if not self._num_left:
            env = self._job.env
            _after(env.timeout(max(0.0, self._latest_s - env.now)), self._over.succeed)


def _after(event: simpy.Event, act: Callable[..., object], *arguments: object) -> None:
    """Act when an event happens."""

    def happened(event: simpy.Event) -> None:
        act(*arguments)

    event.callbacks.append(happened)
