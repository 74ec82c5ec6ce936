"""The worker of a synchronous strategy, who waits until all gradients of the iteration are in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.network import Collective
from clustersim.program import Bucket
from clustersim.strategies.day import Outbox, Process, Where, compute, update
from clustersim.strategies.job import Job
from clustersim.strategies.strategy import Strategy, Tell


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


class Synchronous(Strategy):
    """Every worker waits until all gradients of the iteration are in."""

    @property
    def is_periodic(self) -> bool:
        return True

    @property
    def updates_on_gpu(self) -> bool:
        """Whether every worker runs the optimizer itself."""
        return True

    @abstractmethod
    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Say how a bucket of this size is exchanged."""

    def start(self, job: Job, tell: Tell = lambda share: None) -> simpy.Event:
        """Play one iteration in which all ranks begin together, as they never do again, then those that count."""
        job.num_warm_up = 1
        desk = Desk(job, [self.exchange(job, bucket.num_bytes) for bucket in job.buckets])
        workers = [job.env.process(self._worker(job, desk, rank, tell)) for rank in range(job.num_ranks)]
        return job.env.process(finish(job, workers))

    def _worker(self, job: Job, desk: Desk, rank: int, tell: Tell) -> Process:
        """Train on one GPU: forward, backward with buckets on their way, wait for them, update, repeat."""
        num_played = job.num_warm_up + job.num_iterations
        for iteration in range(num_played):
            outbox = Outbox(job, desk, rank, iteration)
            yield from compute(job, rank, iteration, outbox.send)
            yield from outbox.emptied()
            if self.updates_on_gpu:
                yield from update(job, rank, iteration)
            job.times.end_s[rank, iteration] = job.env.now
            if rank == 0:
                tell((iteration + 1) / num_played)


class Desk:
    """Where ranks meet: one collective per iteration and bucket, opened by the first rank that comes."""

    def __init__(self, job: Job, exchanges: Sequence[Exchange]):
        self._job = job
        self._exchanges = exchanges
        job.algorithms = tuple(exchange.algorithm for exchange in exchanges)
        self._open: dict[tuple[int, int], Collective] = {}
        self._to_come: dict[tuple[int, int], int] = {}

    def goes_anywhere(self, bucket: int) -> bool:
        """Say whether a bucket goes anywhere; that of a lone worker need not."""
        return self._exchanges[bucket].schedule.num_steps > 0

    def exchange(self, where: Where, bucket: Bucket, pushed: simpy.Event) -> Process:
        """Take a rank through the collective of its bucket."""
        rank, iteration, number = where
        collective = self._enter(rank, iteration, number)
        yield collective.reached(rank, self._exchanges[number].follow)
        pushed.succeed()
        yield collective.done(rank)

    def _enter(self, rank: int, iteration: int, bucket: int) -> Collective:
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
        return collective


def finish(job: Job, workers: Sequence[simpy.Event]) -> Process:
    """Wait for all workers; then note for whom each of them waited: for the last that entered."""
    yield from workers
    times = job.times
    for sheet in (times.awaited_s, times.awaited_rank):
        sheet[:] = np.nan
    entered = np.nan_to_num(times.enter_s, nan=-np.inf)
    if entered.size:
        times.awaited_s[:] = entered.max(axis=0, keepdims=True)
        times.awaited_rank[:] = entered.argmax(axis=0)[None]
    times.applied_share[:] = 1.0
