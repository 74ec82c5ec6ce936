"""The worker of a synchronous strategy, who waits until all gradients of the iteration are in."""

from __future__ import annotations

from abc import abstractmethod

import simpy

from clustersim.stragglers import Awaited
from clustersim.strategies.day import Outbox, Process, compute, update
from clustersim.strategies.desk import Desk, Exchange
from clustersim.strategies.job import Job
from clustersim.strategies.march import MARCHED, March, may_march
from clustersim.strategies.shared_march import SharedMarch
from clustersim.strategies.strategy import Strategy, Tell


class Synchronous(Strategy):
    """Every worker waits until all gradients of the iteration are in."""

    @property
    def is_periodic(self) -> bool:
        return True

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(num_workers, num_workers)

    @property
    def marches(self) -> bool:
        """Whether a worker's day is `iterate` below, in which only its own buckets hold it up: a `March` knows it."""
        return False

    def iterations(self, job: Job) -> tuple[int, int]:
        """Return how many iterations come before those that count, and how many are played in all.

        In the first all ranks begin together, as most never do again; and until prefetched samples can have filled.
        """
        before = 1 + job.num_filling
        return before, before + job.num_iterations

    def num_after(self, job: Job) -> int:
        """Return how many iterations come after those that count, where these would end otherwise than they do."""
        return 0

    @abstractmethod
    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Say how a bucket of this size is exchanged."""

    def desk(self, job: Job) -> Desk:
        """Return where the workers of a job meet."""
        sizes = [bucket.num_bytes for bucket in job.buckets]
        known = {size: self.exchange(job, size) for size in dict.fromkeys(sizes)}
        return Desk(job, [known[size] for size in sizes])

    def start(self, job: Job, tell: Tell = lambda share: None) -> simpy.Event:
        """Let every worker play its iterations, in step with the others; as processes only where that is needed."""
        desk = self.desk(job)
        job.algorithms = desk.algorithms
        job.num_warm_up, num_played = self.iterations(job)
        job.num_after = self.num_after(job)
        if self.marches and may_march(job, desk):
            job.shortcuts = (MARCHED,)
            march = SharedMarch if desk.holds else March
            return march(job, desk, num_played, self.updates_on_gpu, tell).start()
        ranks = range(1 if job.plays_as_one else job.num_ranks)
        workers = [job.env.process(self._worker(job, desk, rank, num_played + job.num_after, tell)) for rank in ranks]
        return job.env.process(_all(workers))

    def _worker(self, job: Job, desk: Desk, rank: int, num_iterations: int, tell: Tell) -> Process:
        """Train on one GPU, iteration after iteration."""
        for iteration in range(num_iterations):
            yield from self.iterate(job, desk, rank, iteration)
            job.note_end(rank, iteration, job.env.now)
            if rank == 0:
                tell((iteration + 1) / num_iterations)

    def iterate(self, job: Job, desk: Desk, rank: int, iteration: int) -> Process:
        """Go forward, backward with buckets on their way, wait for them, update."""
        outbox = Outbox(job, desk, rank, iteration)
        yield from compute(job, rank, iteration, outbox.send)
        yield from outbox.emptied()
        if self.updates_on_gpu:
            yield from update(job, rank, iteration)


def _all(workers: list[simpy.Process]) -> Process:
    yield from workers
