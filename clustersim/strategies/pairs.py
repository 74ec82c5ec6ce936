"""Pairwise averaging: a worker averages with one random neighbour at a time."""

from __future__ import annotations

from collections.abc import Sequence

import simpy

from clustersim.execution.job import Job
from clustersim.execution.worker import BucketId, Process, fire
from clustersim.learning.order import PAIR
from clustersim.program import Bucket
from clustersim.seeding import stream


class Pairs:
    """Exchanges buckets in pairs: a worker chooses a neighbour, waits until both are free, and they swap weights.

    A worker takes part in one averaging at a time. The chosen neighbour continues to compute meanwhile. Requests are
    served in order of arrival, so there is no deadlock. A worker swaps its buckets one after another. Its weights count
    as averaged, all together, when the last bucket is: `job.replica_events` notes that.
    """

    def __init__(self, job: Job, neighbours: Sequence[Sequence[int]]):
        self._job, self._neighbours = job, neighbours
        self._nodes = job.buffer_nodes()
        self._free = [simpy.Resource(job.env, capacity=1) for _ in neighbours]
        self._choices = [stream(job.seed, "gossip", rank) for rank in range(len(neighbours))]
        self._chosen: dict[int, tuple[int, int]] = {}

    def leaves_worker(self, bucket: int) -> bool:
        """Return whether there is another worker."""
        return len(self._neighbours) > 1

    def exchange(self, where: BucketId, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Average a bucket with the neighbour of this iteration."""
        rank, iteration, _ = where
        if self._neighbours[rank]:
            other = self._neighbour(rank, iteration)
            with self._free[rank].request() as own_free, self._free[other].request() as other_free:
                yield own_free
                yield other_free
                times = self._job.times
                times.awaited_s[where], times.awaited_rank[where] = self._job.env.now, other
                yield from self._swap(rank, other, bucket.num_bytes)
                if where[2] == len(self._job.buckets) - 1:
                    self._job.replica_events.add(self._job.env.now, PAIR, rank, other)
        fire(pushed)

    def _neighbour(self, rank: int, iteration: int) -> int:
        """Return the neighbour with which a worker averages in an iteration, the same for all buckets."""
        if self._chosen.get(rank, (-1, -1))[0] != iteration:
            near = self._neighbours[rank]
            self._chosen[rank] = iteration, near[int(self._choices[rank].integers(len(near)))]
        return self._chosen[rank][1]

    def _swap(self, rank: int, other: int, num_bytes: float) -> Process:
        """Send in both directions, then average at both ends; if messages are staged, the neighbour copies too."""
        job, network = self._job, self._job.network
        if job.is_staged:
            yield from job.devices[other].copy_out(num_bytes)
        ends = self._nodes[rank], self._nodes[other]
        forth, back = network.transfer(*ends, num_bytes), network.transfer(*ends[::-1], num_bytes)
        yield forth
        yield back
        if network.adds:
            own, others = (network.add(node, num_bytes) for node in ends)
            yield own
            yield others
        if job.is_staged:
            yield from job.devices[other].copy_in(num_bytes)
