"""One worker as a SimPy process: fetch samples, compute, exchange buckets, update."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Protocol

import simpy

from clustersim.execution.job import Job
from clustersim.program import Bucket, Iteration
from clustersim.program.issue import FASTEST, NO_ISSUE, IterationIssue
from clustersim.topology import Node

Process = Generator[simpy.Event, Any, Any]

BucketId = tuple[int, int, int]
"""A bucket of a rank's iteration: (rank, iteration, number of the bucket)."""


class Exchanger(Protocol):
    """Exchanges buckets: by a collective, with a server or with a neighbour."""

    def leaves_worker(self, bucket: int) -> bool:
        """Say whether a bucket is sent anywhere; the bucket of a lone worker may not be."""
        ...

    def exchange(self, where: BucketId, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Exchange a bucket. Fire `pushed` when the worker's next bucket may follow (None: there is no next one)."""
        ...


def fire(event: simpy.Event | None) -> None:
    """Fire an event, if there is one."""
    if event is not None:
        event.succeed()


def compute(job: Job, rank: int, iteration: int, on_ready: Callable[[int, Bucket], None] | None = None) -> Process:
    """Compute forward and backward; call `on_ready` with the number of a bucket, and the bucket, when it is ready."""
    if job.work is not None:
        yield from job.work(job, rank, iteration, on_ready)
        return
    env, times, gpu = job.env, job.times, job.devices[rank]
    plan = job.plans(rank, iteration)
    slowdown = job.slowdown(rank, iteration)
    times.extend_to(iteration)
    times.begin_s[rank, iteration] = env.now
    if job.input_stage is not None:
        yield from wait_for_samples(job, rank)
        times.fetched_s[rank, iteration] = env.now
    issue, host_s = issue_of(job, plan, slowdown), float(env.now)
    before, done_s, part_s = 0, 0.0, 0.0
    for cut, seconds in enumerate(plan.parts_s):
        is_bucket, part_s = 0 < cut <= len(plan.buckets), part_s + seconds
        if is_bucket and on_ready is None:
            continue
        end = before if issue is None else int(issue.num_before[cut])
        if part_s > 0 or end > before or cut <= len(plan.buckets):
            part = NO_ISSUE if issue is None else issue.passes.between(before, end, done_s)
            if plan.issue is not None:  # as in its issue times, to the last bit
                part_s = float(plan.cuts_s[cut]) - done_s
            _, waited_s = yield from gpu.compute_issued(part_s, slowdown, part, host_s, job.network.exact)
            times.host_s[rank, iteration] += waited_s
            before, done_s, part_s = end, float(plan.cuts_s[cut]), 0.0
        if not cut:
            times.forward_s[rank, iteration] = env.now
        elif is_bucket and on_ready is not None:
            on_ready(cut - 1, plan.buckets[cut - 1])
    job.issuing_since_s[rank] = host_s
    job.note_computed(rank, iteration)
    times.slowed_s[rank, iteration] += gpu.take_lost_s()
    copy_next_samples(job, rank)


def update(job: Job, rank: int, iteration: int, gradient_of: int | None = None) -> Process:
    """Run the optimizer on the worker's own GPU, on the gradient of this iteration or of an earlier one."""
    if gradient_of is not None:
        job.gradient_of[iteration] = gradient_of
    gpu, plan, slowdown = job.devices[rank], job.plans(rank, iteration), job.slowdown(rank, iteration)
    issue = issue_of(job, plan, slowdown)
    part, host_s = NO_ISSUE, 0.0
    if issue is not None:
        part, host_s = issue.update, job.issuing_since_s[rank] + issue.passes.host_s
    _, waited_s = yield from gpu.compute_issued(plan.update_s, slowdown, part, host_s, job.network.exact)
    job.times.host_s[rank, iteration] += waited_s
    job.times.slowed_s[rank, iteration] += gpu.take_lost_s()


def issue_of(job: Job, plan: Iteration, slowdown: float) -> IterationIssue | None:
    """Return the issue times of an iteration that are simulated: all, or those that can keep the GPU waiting.

    All in an exact run, and where the GPU may run faster than at the slowdown for which others are left out.
    """
    may_be_faster = job.network.exact or job.paces is not None or slowdown < FASTEST
    return plan.issue if may_be_faster else plan.binding


CopyIn = Callable[[int], Process]
"""Copies a batch of samples to a rank's GPU."""


def wait_for_samples(job: Job, rank: int, copy_in: CopyIn | None = None) -> Process:
    """Wait for the next batch, which may be on its way. Start to fetch the one after it, if that is copied ahead."""
    on_its_way = job.samples.pop(rank, None)
    if on_its_way is None:
        yield from _fetch_batch(job, rank, copy_in)
    else:
        yield on_its_way
    if job.input_stage is not None and job.input_stage.copies_ahead(rank):
        job.samples[rank] = job.env.process(_fetch_batch(job, rank, copy_in))


def copy_next_samples(job: Job, rank: int, copy_in: CopyIn | None = None) -> None:
    """Start to fetch and copy the next batch after compute has ended, unless batches are copied ahead of that."""
    stage = job.input_stage
    if stage is not None and stage.copied_bytes and not stage.copied_ahead:
        job.samples[rank] = job.env.process(_fetch_batch(job, rank, copy_in))


def sample_memory(job: Job, rank: int) -> Node:
    """Return the host memory from which a rank's samples are copied to its GPU."""
    stage, gpu = job.input_stage, job.devices[rank]
    is_first = stage is not None and stage.in_first_socket
    return Node(job.network.topology.first_memory(gpu.number)) if is_first else gpu.host_memory


def _fetch_batch(job: Job, rank: int, copy_in: CopyIn | None) -> Process:
    """Fetch the next batch from the loader, and copy it from host memory to the GPU where that is simulated."""
    stage = job.input_stage
    assert stage is not None
    yield from stage.fetch(rank)
    if stage.copied_bytes and copy_in is not None:
        yield from copy_in(rank)
    elif stage.copied_bytes:
        yield from job.devices[rank].copy_in(stage.copied_bytes, sample_memory(job, rank))


class BucketSender:
    """Sends the buckets of one iteration of one worker. Each starts after the one before it has been pushed.

    What is sent may have another size than the gradients of a bucket: `scale` bytes for each byte of these.
    """

    def __init__(self, job: Job, exchanger: Exchanger, rank: int, iteration: int, scale: float = 1.0):
        job.times.extend_to(iteration)
        self._job, self._exchanger = job, exchanger
        self._rank, self._iteration, self._scale = rank, iteration, scale
        self._plan = job.plans(rank, iteration)
        self._deliveries: list[simpy.Process] = []
        self._previous_pushed: simpy.Event | None = None
        self._last: Process | None = None

    def send(self, number: int, bucket: Bucket) -> None:
        """Start to exchange a bucket while backward goes on.

        A bucket that is ready at the end of backward needs no process of its own: the worker runs it in `drain`.
        """
        delivery = self._delivery(number, bucket)
        if bucket is self._plan.buckets[-1] and bucket.ready_s >= self._plan.backward_s:
            self._last = delivery
        else:
            self._deliveries.append(self._job.env.process(delivery))

    def send_all(self) -> None:
        """Start to exchange all buckets, one after the other."""
        for number, bucket in enumerate(self._plan.buckets):
            self._deliveries.append(self._job.env.process(self._delivery(number, bucket)))

    def drain(self) -> Process:
        """Wait until all buckets are back."""
        if self._last is not None:
            yield from self._last
        yield from self._deliveries
        self._job.times.exchanged_s[self._rank, self._iteration] = self._job.env.now

    def _delivery(self, number: int, bucket: Bucket) -> Process:
        previous_pushed, is_last = self._previous_pushed, bucket is self._plan.buckets[-1]
        self._previous_pushed = None if is_last else self._job.env.event()
        bucket_id = (self._rank, self._iteration, number)
        if self._scale != 1:
            bucket = replace(bucket, num_bytes=self._scale * bucket.num_bytes)
        return _deliver(self._job, self._exchanger, bucket_id, bucket, previous_pushed, self._previous_pushed)


def _deliver(
    job: Job,
    exchanger: Exchanger,
    bucket_id: BucketId,
    bucket: Bucket,
    previous_pushed: simpy.Event | None,
    pushed: simpy.Event | None,
) -> Process:
    """Exchange one bucket, after the bucket before it has been pushed.

    Where the transport stages in host memory, the bucket is copied there first, and back in the end. `copied_s` of the
    bucket are copies made by the code that exchanges it; all of them count as if they came first.
    """
    env, times, device = job.env, job.times, job.devices[bucket_id[0]]
    is_staged = job.is_staged and exchanger.leaves_worker(bucket_id[2])
    times.ready_s[bucket_id] = env.now
    if is_staged:
        yield from device.copy_out(bucket.num_bytes)
    if previous_pushed is not None:
        yield previous_pushed
    if bucket.copied_s:
        yield env.timeout(bucket.copied_s)
    times.enter_s[bucket_id] = env.now
    yield from exchanger.exchange(bucket_id, bucket, pushed)
    times.left_s[bucket_id] = env.now
    if is_staged:
        yield from device.copy_in(bucket.num_bytes * job.wire.back_per_byte)
    times.back_s[bucket_id] = env.now
