"""The parts of a worker's day: compute, hand buckets over and have them back, update."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import simpy

from clustersim.execution.job import Job
from clustersim.program import Bucket
from clustersim.topology import Node

Process = Generator[simpy.Event, Any, Any]

Where = tuple[int, int, int]
"""A bucket of a rank's iteration: (rank, iteration, number of the bucket)."""


class Exchanger(Protocol):
    """Where gradients meet: a collective, a server, a neighbour."""

    def goes_anywhere(self, bucket: int) -> bool:
        """Say whether a bucket leaves its worker; that of a lone worker need not."""
        ...

    def exchange(self, where: Where, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Exchange a bucket; fire `pushed` when the worker's next one may follow (None: there is none)."""
        ...


def fire(event: simpy.Event | None) -> None:
    """Let an event happen that somebody may wait for."""
    if event is not None:
        event.succeed()


def compute(job: Job, rank: int, iteration: int, hand_over: Callable[[int, Bucket], None] | None = None) -> Process:
    """Go forward and backward through the model; hand each bucket over as soon as it is ready."""
    if job.work is not None:
        yield from job.work(job, rank, iteration, hand_over)
        return
    clock, times, gpu = job.clock, job.times, job.devices[rank]
    plan = job.plans(rank, iteration)
    slowdown = job.slowdown(rank, iteration)
    times.extend_to(iteration)
    times.begin_s[rank, iteration] = clock.now
    if job.input_stage is not None:
        yield from take_samples(job, rank)
        times.fetched_s[rank, iteration] = clock.now
    yield from gpu.compute(plan.forward_s * slowdown)
    times.forward_s[rank, iteration] = clock.now
    done_s = 0.0
    for number, bucket in enumerate(plan.buckets if hand_over else ()):
        yield from gpu.compute((bucket.ready_s - done_s) * slowdown)
        done_s = bucket.ready_s
        if hand_over is not None:
            hand_over(number, bucket)
    if plan.backward_s > done_s:
        yield from gpu.compute((plan.backward_s - done_s) * slowdown)
    job.note_computed(rank, iteration)
    times.slowed_s[rank, iteration] += gpu.take_lost_s()
    send_for_samples(job, rank)


CopyIn = Callable[[int], Process]
"""Copies a batch of samples to a rank's GPU."""


def take_samples(job: Job, rank: int, copy_in: CopyIn | None = None) -> Process:
    """Wait for the next batch: for one that is on its way already, or ask for it; the one after may be sent ahead."""
    on_its_way = job.samples.pop(rank, None)
    if on_its_way is None:
        yield from _samples(job, rank, copy_in)
    else:
        yield on_its_way
    if job.input_stage is not None and job.input_stage.goes_ahead(rank):
        job.samples[rank] = job.clock.process(_samples(job, rank, copy_in))


def send_for_samples(job: Job, rank: int, copy_in: CopyIn | None = None) -> None:
    """Let the next batch set off to a GPU that has computed with the one before, where only then it is copied."""
    stage = job.input_stage
    if stage is not None and stage.copied_bytes and not stage.copied_ahead:
        job.samples[rank] = job.clock.process(_samples(job, rank, copy_in))


def sample_memory(job: Job, rank: int) -> Node:
    """Return the memory of its host in which a rank's samples lie, where they are copied from there."""
    stage, gpu = job.input_stage, job.devices[rank]
    is_first = stage is not None and stage.in_first_socket
    return Node(job.network.topology.first_memory(gpu.number)) if is_first else gpu.host_memory


def _samples(job: Job, rank: int, copy_in: CopyIn | None) -> Process:
    """Have the next batch from the loader, and copied from the host's memory to the GPU's where that is simulated."""
    stage = job.input_stage
    assert stage is not None
    yield from stage.fetch(rank)
    if stage.copied_bytes and copy_in is not None:
        yield from copy_in(rank)
    elif stage.copied_bytes:
        yield from job.devices[rank].copy_in(stage.copied_bytes, sample_memory(job, rank))


def update(job: Job, rank: int, iteration: int) -> Process:
    """Run the optimizer on the worker's own GPU."""
    gpu = job.devices[rank]
    yield from gpu.compute(job.plans(rank, iteration).update_s * job.slowdown(rank, iteration))
    job.times.slowed_s[rank, iteration] += gpu.take_lost_s()


class BucketSender:
    """The buckets of one iteration of one worker: each sets off after the one before it has been pushed."""

    def __init__(self, job: Job, meeting: Exchanger, rank: int, iteration: int):
        job.times.extend_to(iteration)
        self._job, self._meeting = job, meeting
        self._rank, self._iteration = rank, iteration
        self._plan = job.plans(rank, iteration)
        self._deliveries: list[simpy.Process] = []
        self._ahead: simpy.Event | None = None
        self._last: Process | None = None

    def send(self, number: int, bucket: Bucket) -> None:
        """Let a bucket set off, as backward proceeds. The worker itself takes one for which it computes no longer."""
        delivery = self._delivery(number, bucket)
        if bucket is self._plan.buckets[-1] and bucket.ready_s >= self._plan.backward_s:
            self._last = delivery
        else:
            self._deliveries.append(self._job.clock.process(delivery))

    def send_all(self) -> None:
        """Let all buckets set off, one after the other."""
        for number, bucket in enumerate(self._plan.buckets):
            self._deliveries.append(self._job.clock.process(self._delivery(number, bucket)))

    def emptied(self) -> Process:
        """Wait until all buckets are back."""
        if self._last is not None:
            yield from self._last
        yield from self._deliveries
        self._job.times.exchanged_s[self._rank, self._iteration] = self._job.clock.now

    def _delivery(self, number: int, bucket: Bucket) -> Process:
        ahead, is_last = self._ahead, bucket is self._plan.buckets[-1]
        self._ahead = None if is_last else self._job.clock.event()
        where = (self._rank, self._iteration, number)
        return _deliver(self._job, self._meeting, where, bucket, ahead, self._ahead)


def _deliver(
    job: Job, meeting: Exchanger, where: Where, bucket: Bucket, ahead: simpy.Event | None, pushed: simpy.Event | None
) -> Process:
    """Take one bucket through the exchange, after the one ahead of it has been pushed.

    Where the transport stages in host memory, a bucket is copied there first, and back in the end. Those who exchange
    it may copy it for a while of their own, which counts as if all of that came first.
    """
    clock, times, device = job.clock, job.times, job.devices[where[0]]
    is_staged = job.is_staged and meeting.goes_anywhere(where[2])
    times.ready_s[where] = clock.now
    if is_staged:
        yield from device.copy_out(bucket.num_bytes)
    if ahead is not None:
        yield ahead
    if bucket.copied_s:
        yield clock.timeout(bucket.copied_s)
    times.enter_s[where] = clock.now
    yield from meeting.exchange(where, bucket, pushed)
    times.left_s[where] = clock.now
    if is_staged:
        yield from device.copy_in(bucket.num_bytes * job.wire.back_per_byte)
    times.back_s[where] = clock.now
