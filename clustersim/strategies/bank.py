"""Parameter servers on the clock: they queue what arrives, add, update, and hand out what they have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import simpy

from clustersim.devices import Queue
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.program import Bucket
from clustersim.results import Update
from clustersim.strategies.day import Process, Where, fire
from clustersim.strategies.job import Job
from clustersim.strategies.rule import Gradient, Part, Rule, Shard
from clustersim.strategies.window import Window, counted_updates


class Bank:
    """All servers of a job. `nodes` [num_servers] are their memories; each has an equal share of every bucket.

    What arrives at a server queues: one gradient is added, or one update made, at a time, first come first served,
    and takes the memory's time. `rate_of(staleness)` is the learning rate of a gradient, relative to the one set.
    """

    def __init__(self, job: Job, rule: Rule, nodes: Sequence[Hashable], rate_of: Callable[[int], float]):
        self._job, self._rule, self._nodes, self._rate_of = job, rule, nodes, rate_of
        self._queues = [Queue(job.env) for _ in nodes]
        self._buffers = job.buffer_nodes()
        self._gradients: dict[int, Gradient] = {}
        self._shards = [
            [
                Shard(server, number, bucket.num_bytes / len(nodes), [0] * job.num_ranks, [0] * job.num_ranks)
                for server in range(len(nodes))
            ]
            for number, bucket in enumerate(job.buckets)
        ]
        job.algorithms = ("server",) * len(job.buckets)

    def window(self, num_workers: int, tell: Callable[[float], None]) -> Window:
        """Return the window of so many workers' updates, counted in the parts of their gradients."""
        job, rule = self._job, self._rule
        each, per_round = rule.gradients_per_update, rule.updates_per_round(num_workers)
        before, counted = counted_updates(num_workers, job.num_iterations, each, per_round)
        parts = each * len(self._shards) * len(self._nodes)
        return Window(job.env, job.updates, range(job.num_ranks), before * parts, counted * parts, tell)

    def goes_anywhere(self, bucket: int) -> bool:
        """Say that every bucket goes to the servers."""
        return True

    def exchange(self, where: Where, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Push a bucket to all servers at once, each its share; pull each share when it may be read."""
        rank, iteration, number = where
        gradient = self._gradient(rank, iteration)
        parts = [Part(gradient, self._job.env.now, shard.read[rank]) for shard in self._shards[number]]
        yield from self._together([self._push(part, shard) for part, shard in self._with_shards(parts, number)])
        fire(pushed)
        yield from self._together([self._pull(part, shard, where) for part, shard in self._with_shards(parts, number)])

    def _with_shards(self, parts: list[Part], number: int) -> list[tuple[Part, Shard]]:
        return list(zip(parts, self._shards[number], strict=True))

    def _gradient(self, rank: int, iteration: int) -> Gradient:
        """Return the gradient of a worker's iteration, new with its first bucket."""
        gradient = self._gradients.get(rank)
        if gradient is None or gradient.iteration != iteration:
            gradient = Gradient(rank, iteration, len(self._shards) * len(self._nodes))
            self._gradients[rank] = gradient
        return gradient

    def _together(self, errands: list[Process]) -> Process:
        """Run errands side by side, and wait for all."""
        if len(errands) == 1:
            yield from errands[0]
        else:
            yield from [self._job.env.process(errand) for errand in errands]

    def _push(self, part: Part, shard: Shard) -> Process:
        """Send a part to its server, and have it served there in its turn."""
        network, node = self._job.network, self._nodes[shard.server]
        yield network.transfer(self._buffers[part.gradient.rank], node, shard.num_bytes)
        queue = self._queues[shard.server]
        turn = queue.come()
        if turn is not None:
            yield turn
        if self._rule.takes(shard, part):
            yield from self._serve(part, shard)
        else:
            self._settle(part, shard, shard.version + 1, applied=False)
        queue.go()

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
        shard.version = self._rule.version_after(shard)
        shard.last_part = max(parts, key=lambda part: part.enter_s)
        for part in parts:
            self._settle(part, shard, self._rule.written_by(shard, part), applied=True)
        if shard.readers:
            readers, shard.readers = shard.readers, []
            for version, event in readers:
                if version <= shard.version:
                    event.succeed()
                else:
                    shard.readers.append((version, event))

    def _pull(self, part: Part, shard: Shard, where: Where) -> Process:
        """Read a share of the parameters, as soon as the rule allows it."""
        rank, version = part.gradient.rank, self._rule.to_read(part)
        if shard.version < version:
            arrived = self._job.env.event()
            shard.readers.append((version, arrived))
            yield arrived
            self._note_wait(shard, where)
        shard.read[rank] = shard.version
        num_bytes = shard.num_bytes * self._job.wire.back_per_byte
        yield self._job.network.transfer(self._nodes[shard.server], self._buffers[rank], num_bytes)

    def _note_wait(self, shard: Shard, where: Where) -> None:
        """Note for whom a worker waited: for the last of those whose gradients made the version it may read."""
        times, last = self._job.times, shard.last_part
        if last is not None and not times.awaited_s[where] >= last.enter_s:
            times.awaited_s[where] = last.enter_s
            times.awaited_rank[where] = last.gradient.rank

    def _settle(self, part: Part, shard: Shard, version_written: int, applied: bool) -> None:
        """Note what has become of a part; with its last part a gradient goes into the log."""
        gradient = part.gradient
        gradient.staleness = max(gradient.staleness, version_written - 1 - part.version_read)
        gradient.version_written = max(gradient.version_written, version_written)
        gradient.num_bytes += shard.num_bytes
        gradient.applied_bytes += shard.num_bytes if applied else 0.0
        gradient.applied_parts += applied
        gradient.parts_left -= 1
        if not gradient.parts_left:
            self._log(gradient)

    def _log(self, gradient: Gradient) -> None:
        job, written = self._job, gradient.version_written
        share = gradient.applied_bytes / gradient.num_bytes if gradient.num_bytes else 1.0
        accepted = gradient.applied_bytes == gradient.num_bytes
        job.times.applied_share[gradient.rank, gradient.iteration] = share
        read, rate = written - 1 - gradient.staleness, self._rate_of(gradient.staleness)
        job.updates.add(Update(job.env.now, gradient.rank, read, written, rate, accepted))
        if job.window is not None:
            job.window.applied(gradient.applied_parts)
