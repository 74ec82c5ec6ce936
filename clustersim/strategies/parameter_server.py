"""Parameter servers on the clock: they queue what arrives, add, update, and hand out what they have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import simpy

from clustersim.devices import Queue
from clustersim.execution.job import Job
from clustersim.execution.worker import BucketId, Process, fire
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.program import Bucket
from clustersim.results import Update
from clustersim.strategies.update_rule import Gradient, Part, Shard, UpdateRule


class ServedModel:
    """What all servers of a job know of its gradients; `rate_of(staleness)` is a gradient's relative learning rate.

    The model's version counts its updates. A gradient is in the model when its last part has been applied, and every
    `gradients_per_update` of them, in this order, make a version. A worker has read the version that was there when
    the last of its shares set out to it.
    """

    def __init__(self, job: Job, rule: UpdateRule, rate_of: Callable[[int], float]):
        self.job, self.rule, self._rate_of = job, rule, rate_of
        self.read = [0] * job.num_ranks  # the model's version that each worker has
        self.shards: list[Shard] = []
        self._gradients: dict[tuple[int, int], Gradient] = {}
        self._num_applied = 0  # gradients that are in the model

    @property
    def version(self) -> int:
        """How many updates of the whole model there have been."""
        return self._num_applied // self.rule.gradients_per_update

    def gradient(self, rank: int, iteration: int) -> Gradient:
        """Return the gradient of a worker's iteration, new with its first bucket."""
        key = rank, iteration
        if key not in self._gradients:
            read = self.rule.version_read(self.read[rank], (shard.read[rank] for shard in self.shards))
            self._gradients[key] = Gradient(rank, iteration, len(self.shards), read)
        return self._gradients[key]

    def settle(self, gradient: Gradient, applied: bool) -> None:
        """Note what has become of a part; with its last part a gradient goes into the log."""
        gradient.parts_left -= 1
        if gradient.parts_left:
            return
        del self._gradients[gradient.rank, gradient.iteration]
        read, version = gradient.version_read, self.version
        if applied:
            self._num_applied += 1
            written = version + 1
        else:
            written = max(version, read + 1) + 1  # it has missed the update of the version it had read
        staleness = written - 1 - read
        rate = self._rate_of(staleness)
        self.job.updates.add(Update(self.job.clock.now, gradient.rank, read, written, rate, applied))
        if self.job.window is not None and self.version > version:
            self.job.window.updated()


class ParameterServers:
    """All servers of a job. `nodes` [num_servers] are their memories. The `holders` of a
    bucket [num_buckets] have equal shares of it.

    What arrives at a server queues: one gradient is added, or one update made, at a time, first come first served,
    and takes the memory's time. `queues` are those of servers by their number and their memory: where the workers of
    several jobs have parts of one `model`, those with servers in one place share them.
    """

    def __init__(
        self,
        job: Job,
        model: ServedModel,
        nodes: Sequence[Hashable],
        holders: Sequence[Sequence[int]],
        queues: dict[tuple[int, Hashable], Queue] | None = None,
    ):
        self._job, self._model, self._rule, self._nodes = job, model, model.rule, nodes
        known = {} if queues is None else queues
        self._queues = [known.setdefault(key, Queue(job.clock)) for key in enumerate(nodes)]
        self._buffers = job.buffer_nodes()
        self._shards = [
            [
                Shard(server, number, bucket.num_bytes / len(own), [0] * job.num_ranks, [0] * job.num_ranks)
                for server in own
            ]
            for number, (bucket, own) in enumerate(zip(job.buckets, holders, strict=True))
        ]
        model.shards += [shard for row in self._shards for shard in row]
        job.algorithms = ("server",) * len(job.buckets)

    def leaves_worker(self, bucket: int) -> bool:
        """Say that every bucket goes to the servers."""
        return True

    def exchange(self, where: BucketId, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Push a bucket to all servers at once, each its share; pull each share when it may be read."""
        rank, iteration, number = where
        gradient = self._model.gradient(rank, iteration)
        now_s = self._job.clock.now
        errands = [(Part(gradient, now_s), shard) for shard in self._shards[number]]
        yield from self._together([self._push(part, shard) for part, shard in errands])
        fire(pushed)
        yield from self._together([self._pull(part, shard, where) for part, shard in errands])

    def _together(self, errands: list[Process]) -> Process:
        """Run errands side by side, and wait for all."""
        if len(errands) == 1:
            yield from errands[0]
        else:
            yield from [self._job.clock.process(errand) for errand in errands]

    def _push(self, part: Part, shard: Shard) -> Process:
        """Send a part to its server, and have it served there in its turn."""
        network, node = self._job.network, self._nodes[shard.server]
        yield network.transfer(self._buffers[part.gradient.rank], node, shard.num_bytes)
        queue = self._queues[shard.server]
        turn = queue.acquire()
        if turn is not None:
            yield turn
        if self._rule.takes(part.gradient):
            yield from self._serve(part, shard)
        else:
            self._model.settle(part.gradient, applied=False)
        self._model.read[part.gradient.rank] = self._model.version
        queue.release()

    def _serve(self, part: Part, shard: Shard) -> Process:
        """Add a part to those that are pending, and update with them when they are enough."""
        network, node, rule = self._job.network, self._nodes[shard.server], self._rule
        if rule.gradients_per_update > 1 and network.adds:
            yield network.add(node, shard.num_bytes * self._job.wire.added_per_byte)
        shard.pending.append(part)
        if len(shard.pending) == rule.gradients_per_update:
            moved = shard.num_bytes * self._job.update_bytes_per_byte
            yield network.add(node, moved / BYTES_MOVED_PER_ADDED)
            self._update(shard)

    def _update(self, shard: Shard) -> None:
        """Apply what is pending; let those go on who wait for the new version."""
        parts, shard.pending = shard.pending, []
        for part in parts:
            shard.num_applied[part.gradient.rank] += 1
        shard.reached = self._rule.reached(shard)
        shard.last_part = parts[0] if len(parts) == 1 else max(parts, key=lambda part: part.enter_s)
        for part in parts:
            self._model.settle(part.gradient, applied=True)
        if shard.readers:
            readers, shard.readers = shard.readers, []
            for awaited, event in readers:
                if awaited <= shard.reached:
                    event.succeed()
                else:
                    shard.readers.append((awaited, event))

    def _pull(self, part: Part, shard: Shard, where: BucketId) -> Process:
        """Read a share of the parameters, as soon as the rule allows it."""
        rank, awaited = part.gradient.rank, self._rule.to_read(part.gradient)
        if shard.reached < awaited:
            arrived = self._job.clock.event()
            shard.readers.append((awaited, arrived))
            self._note_waiting(shard, where)
            yield arrived
            self._note_wait(shard, where)
            self._model.read[rank] = self._model.version
        shard.read[rank] = shard.reached
        num_bytes = shard.num_bytes * self._job.wire.back_per_byte
        yield self._job.network.transfer(self._nodes[shard.server], self._buffers[rank], num_bytes)

    def _note_waiting(self, shard: Shard, where: BucketId) -> None:
        """Note that a worker waits, and for one of those of whom there is least in the shard."""
        times = self._job.times
        times.awaited_s[where] = np.inf
        times.awaited_rank[where] = shard.num_applied.index(min(shard.num_applied))

    def _note_wait(self, shard: Shard, where: BucketId) -> None:
        """Note for whom a worker waited: for the last of those whose gradients made the version it may read."""
        times, last = self._job.times, shard.last_part
        is_known = times.awaited_s[where] < np.inf
        if last is not None and not (is_known and times.awaited_s[where] >= last.enter_s):
            times.awaited_s[where] = last.enter_s
            times.awaited_rank[where] = last.gradient.rank
