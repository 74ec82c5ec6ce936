"""The worker of a synchronous strategy, who waits until all gradients of the iteration are in."""

from __future__ import annotations

from abc import abstractmethod

import simpy

from clustersim.execution.job import Job, OnProgress
from clustersim.execution.rendezvous import Exchange, Rendezvous
from clustersim.execution.vectorized_sm_sharing import VectorizedWorkersSharingSms
from clustersim.execution.vectorized_workers import VECTORIZED, VectorizedWorkers, can_vectorize
from clustersim.execution.worker import BucketSender, Process, compute, update
from clustersim.shortcuts import Shortcut
from clustersim.stragglers import Awaited
from clustersim.strategies.strategy import Strategy


class Synchronous(Strategy):
    """Every worker waits until all gradients of the iteration are in."""

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(num_workers, num_workers)

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

    def rendezvous(self, job: Job) -> Rendezvous:
        """Return where the workers of a job meet."""
        sizes = [bucket.num_bytes for bucket in job.buckets]
        known = {size: self.exchange(job, size) for size in dict.fromkeys(sizes)}
        return Rendezvous(job, [known[size] for size in sizes])

    def start(self, job: Job, tell: OnProgress = lambda share: None) -> simpy.Event:
        """Let every worker play its iterations, in step with the others; as processes only where that is needed."""
        rendezvous = self.rendezvous(job)
        job.algorithms = rendezvous.algorithms
        job.num_warm_up, num_played = self.iterations(job)
        job.num_after = self.num_after(job)
        if self.allows(Shortcut.VECTORIZED_WORKERS) and can_vectorize(job, rendezvous):
            job.shortcuts = (VECTORIZED,)
            vectorized = VectorizedWorkersSharingSms if rendezvous.shares_sms else VectorizedWorkers
            return vectorized(job, rendezvous, num_played, self.updates_on_gpu, tell).start()
        ranks = range(1 if job.is_folded else job.num_ranks)
        workers = [
            job.env.process(self._worker(job, rendezvous, rank, num_played + job.num_after, tell)) for rank in ranks
        ]
        return job.env.process(_all(workers))

    def _worker(self, job: Job, rendezvous: Rendezvous, rank: int, num_iterations: int, tell: OnProgress) -> Process:
        """Train on one GPU, iteration after iteration."""
        for iteration in range(num_iterations):
            yield from self.iterate(job, rendezvous, rank, iteration)
            job.note_end(rank, iteration, job.env.now)
            if rank == 0:
                tell((iteration + 1) / num_iterations)

    def iterate(self, job: Job, rendezvous: Rendezvous, rank: int, iteration: int) -> Process:
        """Go forward, backward with buckets on their way, wait for them, update."""
        sender = BucketSender(job, rendezvous, rank, iteration)
        yield from compute(job, rank, iteration, sender.send)
        yield from sender.drain()
        if self.updates_on_gpu:
            yield from update(job, rank, iteration)


def _all(workers: list[simpy.Process]) -> Process:
    yield from workers
