"""Parameter servers of workers at their own pace: they queue pushed gradients, add, update, and serve pulls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain

import numpy as np
import simpy

from clustersim.devices import Queue
from clustersim.execution.job import Job
from clustersim.execution.worker import BucketId, Process, fire
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.program import Bucket
from clustersim.results import Update
from clustersim.strategies.servers import moved_s
from clustersim.strategies.update_rule import Gradient, GradientPart, Shard, UpdateRule


class ServedModel:
    """The version of the whole model, over all its servers, and its gradients in transit.

    The version counts updates. A gradient is applied when the last of its parts is applied. Every
    `gradients_per_update` gradients, in this order, make a version. A worker has read the version that the model had
    when the pull of its last shard began. `learning_rate(staleness)` is the relative learning rate of a gradient.
    """

    def __init__(self, job: Job, rule: UpdateRule, learning_rate: Callable[[int], float]):
        self.job, self.rule, self._learning_rate = job, rule, learning_rate
        self.version_of_rank = [0] * job.num_ranks  # the version that each worker has read
        self.shards: list[Shard] = []
        self._gradients: dict[tuple[int, int], Gradient] = {}
        self._num_applied = 0  # gradients

    @property
    def version(self) -> int:
        """The number of updates of the whole model so far."""
        return self._num_applied // self.rule.gradients_per_update

    def gradient(self, rank: int, iteration: int) -> Gradient:
        """Return the gradient of a worker's iteration; the first bucket creates it."""
        key = rank, iteration
        if key not in self._gradients:
            read = self.rule.version_read(self.version_of_rank[rank], (shard.pulled[rank] for shard in self.shards))
            self._gradients[key] = Gradient(rank, iteration, len(self.shards), read)
        return self._gradients[key]

    def finish_part(self, gradient: Gradient, applied: bool) -> None:
        """Note that a part of a gradient is applied or dropped; after its last part, add the gradient to the log."""
        gradient.parts_left -= 1
        if gradient.parts_left:
            return
        del self._gradients[gradient.rank, gradient.iteration]
        read, version = gradient.version_read, self.version
        if applied:
            self._num_applied += 1
            self.rule.applied(gradient.rank)
            written = version + 1
        else:
            written = max(version, read + 1) + 1  # it is too late for the update of the version that it was computed on
        staleness = written - 1 - read
        rate = self._learning_rate(staleness)
        self.job.updates.add(Update(self.job.env.now, gradient.rank, read, written, rate, applied))
        if self.job.window is not None and self.version > version:
            self.job.window.updated()


class ParameterServers:
    """All servers of a job. `nodes` [num_servers] are their memories.

    Each bucket is on some of the servers, in equal shares (`servers_of_buckets` [num_buckets]).

    A server handles one part at a time, first come first served. It adds a gradient or makes an update at the rate of
    its memory. `queues` are the queues of servers by number and memory: the jobs of one `model` that is laid over
    several GPUs share the queues of servers in the same memory.
    """

    def __init__(
        self,
        job: Job,
        model: ServedModel,
        nodes: Sequence[Hashable],
        servers_of_buckets: Sequence[Sequence[int]],
        queues: dict[tuple[int, Hashable], Queue] | None = None,
    ):
        self._job, self._model, self._rule, self._nodes = job, model, model.rule, nodes
        shared = {} if queues is None else queues
        self._queues = [shared.setdefault(key, Queue(job.env)) for key in enumerate(nodes)]
        self._buffers = job.buffer_nodes()
        self._shards = [
            [
                Shard(server, number, bucket.num_bytes / len(servers), [0] * job.num_ranks, [0] * job.num_ranks)
                for server in servers
            ]
            for number, (bucket, servers) in enumerate(zip(job.buckets, servers_of_buckets, strict=True))
        ]
        model.shards += [shard for row in self._shards for shard in row]
        job.algorithms = ("server",) * len(job.buckets)

    def seconds_per_gradient(self) -> dict[tuple[int, Hashable], float]:
        """Return how long each server works on a gradient, by number and memory: on its part of the update, too."""
        job, per_update = self._job, self._rule.gradients_per_update
        moved = job.update_bytes_per_byte / per_update
        if per_update > 1 and job.network.adds:
            moved += job.wire.added_per_byte * BYTES_MOVED_PER_ADDED
        num_bytes = [0.0] * len(self._nodes)
        for shard in chain.from_iterable(self._shards):
            num_bytes[shard.server] += shard.num_bytes
        return {key: moved_s(job, key[1], moved * num_bytes[key[0]]) for key in enumerate(self._nodes)}

    def leaves_worker(self, bucket: int) -> bool:
        """Return True: every bucket goes to the servers."""
        return True

    def exchange(self, where: BucketId, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Push a bucket to its servers in parallel, to each its share; pull each share as soon as that is allowed."""
        rank, iteration, number = where
        gradient = self._model.gradient(rank, iteration)
        now_s = self._job.env.now
        parts = [(GradientPart(gradient, now_s), shard) for shard in self._shards[number]]
        yield from self._in_parallel([self._push(part, shard) for part, shard in parts])
        fire(pushed)
        yield from self._in_parallel([self._pull(part, shard, where) for part, shard in parts])

    def _in_parallel(self, requests: list[Process]) -> Process:
        """Run requests in parallel, and wait for all."""
        if len(requests) == 1:
            yield from requests[0]
        else:
            yield from [self._job.env.process(request) for request in requests]

    def _push(self, part: GradientPart, shard: Shard) -> Process:
        """Send a part to its server, wait in the server's queue, and have the part served."""
        network, node = self._job.network, self._nodes[shard.server]
        yield network.transfer(self._buffers[part.gradient.rank], node, shard.num_bytes)
        queue = self._queues[shard.server]
        turn = queue.acquire()
        if turn is not None:
            yield turn
        if self._rule.accepts(part.gradient):
            yield from self._serve(part, shard)
        else:
            self._model.finish_part(part.gradient, applied=False)
        self._model.version_of_rank[part.gradient.rank] = self._model.version
        queue.release()

    def _serve(self, part: GradientPart, shard: Shard) -> Process:
        """Add a part to the pending ones, and update when there are enough."""
        network, node, rule = self._job.network, self._nodes[shard.server], self._rule
        if rule.gradients_per_update > 1 and network.adds:
            yield network.add(node, shard.num_bytes * self._job.wire.added_per_byte)
        shard.pending.append(part)
        if len(shard.pending) == rule.gradients_per_update:
            moved = shard.num_bytes * self._job.update_bytes_per_byte
            yield network.add(node, moved / BYTES_MOVED_PER_ADDED)
            self._update(shard)

    def _update(self, shard: Shard) -> None:
        """Apply the pending parts; start the pulls that wait for this progress."""
        parts, shard.pending = shard.pending, []
        for part in parts:
            shard.num_applied[part.gradient.rank] += 1
        shard.progress = self._rule.progress(shard)
        shard.last_part = parts[0] if len(parts) == 1 else max(parts, key=lambda part: part.enter_s)
        for part in parts:
            self._model.finish_part(part.gradient, applied=True)
        if shard.waiting_pulls:
            waiting, shard.waiting_pulls = shard.waiting_pulls, []
            for needed, event in waiting:
                if needed <= shard.progress:
                    event.succeed()
                else:
                    shard.waiting_pulls.append((needed, event))

    def _pull(self, part: GradientPart, shard: Shard, where: BucketId) -> Process:
        """Send a share of the parameters to a worker, as soon as the update rule allows it."""
        rank, needed = part.gradient.rank, self._rule.needed_progress(part.gradient)
        if shard.progress < needed:
            allowed = self._job.env.event()
            shard.waiting_pulls.append((needed, allowed))
            self._rule.waited(self._model.version)
            self._note_expected_cause(shard, where)
            yield allowed
            self._note_cause(shard, where)
            self._model.version_of_rank[rank] = self._model.version
        shard.pulled[rank] = shard.progress
        num_bytes = shard.num_bytes * self._job.wire.back_per_byte
        yield self._job.network.transfer(self._nodes[shard.server], self._buffers[rank], num_bytes)

    def _note_expected_cause(self, shard: Shard, where: BucketId) -> None:
        """Note that a worker waits, and for which rank: the first with the fewest gradients in the shard."""
        times = self._job.times
        times.awaited_s[where] = np.inf
        times.awaited_rank[where] = shard.num_applied.index(min(shard.num_applied))

    def _note_cause(self, shard: Shard, where: BucketId) -> None:
        """Note for which rank a worker waited: the one that was last to push a part of the latest update."""
        times, last = self._job.times, shard.last_part
        is_noted = times.awaited_s[where] < np.inf
        if last is not None and not (is_noted and times.awaited_s[where] >= last.enter_s):
            times.awaited_s[where] = last.enter_s
            times.awaited_rank[where] = last.gradient.rank
