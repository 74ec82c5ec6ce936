"""Synchronous strategies: every worker waits until all gradients of its iteration are exchanged."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
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
    """Workers that exchange buckets in collectives, and wait for all buckets of an iteration before the next one.

    A subclass says how one bucket is exchanged (`exchange`). It may also override, from the smallest change on:

    - `iterate`: what a worker does in one iteration; with `round_length`, where it differs from one iteration to the
      next, so that whole rounds are measured;
    - `iterations` and `num_after`: how many iterations run before and after the measured ones;
    - `rendezvous`: the collectives of a job, where `exchange` of each bucket by itself does not describe them.
    """

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(num_workers, num_workers)

    @abstractmethod
    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Return how a bucket of this size is exchanged: the schedule of messages, and the nodes that send them."""

    def iterate(self, job: Job, rendezvous: Rendezvous, rank: int, iteration: int) -> Process:
        """Run one iteration of a worker: forward, backward, exchange all buckets, update.

        `compute` sends each bucket as soon as its gradients are ready. Buckets of a worker are exchanged one after
        another. Without overlap, all buckets are ready at the end of backward.
        """
        sender = BucketSender(job, rendezvous, rank, iteration)
        yield from compute(job, rank, iteration, sender.send)
        yield from sender.drain()
        if self.updates_on_gpu:
            yield from update(job, rank, iteration)

    def iterations(self, job: Job) -> tuple[int, int]:
        """Return the number of warm-up iterations, and of warm-up and measured iterations together.

        The first iteration is not measured, because all ranks begin it at the same time. Later iterations are warm-up
        until prefetched samples can have filled their buffer. Both numbers are whole rounds of `round_length`.
        """
        each = self.round_length
        before, measured = -(-(1 + job.num_filling) // each), -(-job.num_iterations // each)
        return before * each, (before + measured) * each

    def num_after(self, job: Job) -> int:
        """Return the number of iterations to run after the measured ones, if these would end differently without."""
        return 0

    def rendezvous(self, job: Job) -> Rendezvous:
        """Return the rendezvous in which the workers of a job exchange buckets, one collective for each bucket."""
        sizes = [bucket.num_bytes for bucket in job.buckets]
        exchanges = {size: self.exchange(job, size) for size in dict.fromkeys(sizes)}
        return Rendezvous(job, [exchanges[size] for size in sizes])

    def start(self, job: Job, on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start all workers; in arrays instead of processes where the shortcut is proved and the job allows it."""
        rendezvous = self.rendezvous(job)
        job.algorithms = rendezvous.algorithms
        job.num_warm_up, num_iterations = self.iterations(job)
        job.num_after = self.num_after(job)
        if self.allows(Shortcut.VECTORIZED_WORKERS) and can_vectorize(job, rendezvous):
            job.shortcuts = (VECTORIZED,)
            vectorized = VectorizedWorkersSharingSms if rendezvous.shares_sms else VectorizedWorkers
            return vectorized(job, rendezvous, num_iterations, self.updates_on_gpu, on_progress).start()
        ranks = range(1 if job.is_folded else job.num_ranks)
        total = num_iterations + job.num_after
        workers = [job.env.process(self._worker(job, rendezvous, rank, total, on_progress)) for rank in ranks]
        return job.env.process(_all(workers))

    def _worker(
        self, job: Job, rendezvous: Rendezvous, rank: int, num_iterations: int, on_progress: OnProgress
    ) -> Process:
        """Run all iterations of one worker."""
        for iteration in range(num_iterations):
            yield from self.iterate(job, rendezvous, rank, iteration)
            if np.isnan(job.times.exchanged_s[rank, iteration]):  # it has exchanged nothing
                job.times.exchanged_s[rank, iteration] = job.times.computed_s[rank, iteration]
            job.note_end(rank, iteration, job.env.now)
            if rank == 0:
                on_progress((iteration + 1) / num_iterations)


def _all(workers: list[simpy.Process]) -> Process:
    yield from workers
