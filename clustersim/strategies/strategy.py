"""What every strategy is, and the worker of the synchronous ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from pydantic import Field, field_validator

from clustersim.collectives import Schedule
from clustersim.network import Collective
from clustersim.program import Bucket, bucket_caps
from clustersim.spec import Spec
from clustersim.strategies.job import Job

Process = Generator[simpy.Event, Any, Any]


@dataclass(frozen=True)
class Exchange:
    """How one bucket is exchanged: a schedule over nodes, workers first, then servers.

    `delay_s` [num_nodes, num_steps] are pauses. A worker's next bucket may follow when the worker has
    reached the step `follow`.
    """

    schedule: Schedule
    nodes: Sequence[Hashable]
    algorithm: str
    follow: int
    delay_s: np.ndarray | None = None


class Strategy(Spec):
    """A way for gradients to meet. Synchronous: every worker waits until all gradients of the iteration are in."""

    kind: str
    overlap: bool = Field(default=True, description="exchange gradients while backward still runs")
    buckets: str = Field(
        default="pytorch",
        description="which gradients travel together: `pytorch` (1 MiB, then 25 MiB), `layer` (each by itself), "
        "`whole` (all in one) or a size that caps every bucket, such as `4 MiB`",
    )

    @field_validator("buckets", mode="before")
    @classmethod
    def _buckets_are_a_rule_or_a_size(cls, value: Any) -> Any:
        if isinstance(value, str | int | float):
            bucket_caps(value)
        return value

    @property
    def updates_on_gpu(self) -> bool:
        """Whether every worker runs the optimizer itself."""
        return True

    def warnings(self) -> tuple[str, ...]:
        """Return what the user wrote here and what changes nothing."""
        return ()

    @abstractmethod
    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Say how a bucket of this size is exchanged."""

    def start(self, job: Job, tell: Callable[[int], None] = lambda iteration: None) -> simpy.Event:
        """Put the workers of a job on the clock; return an event that fires when all are done.

        `tell` is called with the number of every iteration that rank 0 has finished.
        """
        desk = _Desk(self, job)
        workers = [job.env.process(_worker(self, job, desk, rank, tell)) for rank in range(job.num_ranks)]
        return job.env.process(_all(workers))


class _Desk:
    """Where ranks meet: one collective per iteration and bucket, opened by the first rank that comes."""

    def __init__(self, strategy: Strategy, job: Job):
        self._job = job
        self._exchanges = [strategy.exchange(job, bucket.num_bytes) for bucket in job.buckets]
        job.algorithms = tuple(exchange.algorithm for exchange in self._exchanges)
        self._open: dict[tuple[int, int], Collective] = {}
        self._to_come: dict[tuple[int, int], int] = {}

    def has_steps(self, bucket: int) -> bool:
        """Say whether a bucket goes anywhere; that of a lone worker need not."""
        return self._exchanges[bucket].schedule.num_steps > 0

    def enter(self, rank: int, iteration: int, bucket: int) -> tuple[Collective, int]:
        """Enter the collective of a bucket; return it and the step at which the next bucket may follow."""
        key, exchange = (iteration, bucket), self._exchanges[bucket]
        if key not in self._open:
            collective = self._job.network.begin(exchange.schedule, exchange.nodes, exchange.delay_s)
            collective.enter(*range(self._job.num_ranks, exchange.schedule.num_ranks))
            self._open[key], self._to_come[key] = collective, self._job.num_ranks
        collective = self._open[key]
        collective.enter(rank)
        self._to_come[key] -= 1
        if not self._to_come[key]:
            del self._open[key], self._to_come[key]
        return collective, exchange.follow


def _worker(strategy: Strategy, job: Job, desk: _Desk, rank: int, tell: Callable[[int], None]) -> Process:
    """Train on one GPU: forward, backward with buckets on their way, wait for them, update, repeat."""
    env, times, gpu = job.env, job.times, job.devices[rank]
    for iteration in range(job.num_iterations):
        plan = job.plans(rank, iteration)
        slowdown = float(job.slowdown[rank, iteration])
        times.begin_s[rank, iteration] = env.now
        yield from gpu.compute(plan.forward_s * slowdown)
        times.forward_s[rank, iteration] = env.now
        deliveries: list[simpy.Process] = []
        done_s, ahead = 0.0, env.event().succeed()
        for number, bucket in enumerate(plan.buckets):
            yield from gpu.compute((bucket.ready_s - done_s) * slowdown)
            done_s, follow = bucket.ready_s, env.event()
            deliveries.append(env.process(_deliver(job, desk, (rank, iteration, number), bucket, ahead, follow)))
            ahead = follow
        if plan.backward_s > done_s:
            yield from gpu.compute((plan.backward_s - done_s) * slowdown)
        times.computed_s[rank, iteration] = env.now
        yield from deliveries
        times.exchanged_s[rank, iteration] = env.now
        if strategy.updates_on_gpu:
            yield from gpu.compute(plan.update_s * slowdown)
        times.end_s[rank, iteration] = env.now
        if rank == 0:
            tell(iteration)


def _deliver(
    job: Job, desk: _Desk, where: tuple[int, int, int], bucket: Bucket, ahead: simpy.Event, follow: simpy.Event
) -> Process:
    """Take one bucket (rank, iteration, number) through the exchange: after the one ahead, before the one to follow.

    Where the transport stages in host memory, a bucket is copied there first, and back in the end.
    """
    env, times, device = job.env, job.times, job.devices[where[0]]
    is_staged = job.is_staged and desk.has_steps(where[2])
    times.ready_s[where] = env.now
    if is_staged:
        yield from device.copy_out(bucket.num_bytes)
    yield ahead
    times.enter_s[where] = env.now
    collective, step = desk.enter(*where)
    yield collective.reached(where[0], step)
    follow.succeed()
    yield collective.done(where[0])
    times.left_s[where] = env.now
    if is_staged:
        yield from device.copy_in(bucket.num_bytes)
    times.back_s[where] = env.now


def _all(processes: Sequence[simpy.Event]) -> Process:
    yield from processes
