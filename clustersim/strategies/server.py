"""Synchronous parameter server: workers push gradients, servers add and update, workers pull parameters."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import numpy as np
from pydantic import Field

from clustersim.collectives import Schedule, Step
from clustersim.errors import Mistake
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.strategies.algorithm import by_host
from clustersim.strategies.desk import Desk, Exchange
from clustersim.strategies.job import Job
from clustersim.strategies.servers import Servers, update_s
from clustersim.strategies.synchronous import Synchronous


class Server(Synchronous):
    """All workers wait for the servers' update of every iteration.

    A bucket is pushed to all servers at once, each its share, or to the one that has it whole; a server that has
    every worker's share updates and sends it back. A worker pushes its next bucket when it has pushed this one: while
    one is pulled the next is pushed, which is what a full-duplex link is for.
    """

    kind: Literal["server"] = "server"
    servers: Servers = Field(default=Servers(), description="how many servers, and where")

    @property
    def updates_on_gpu(self) -> bool:
        return False

    @property
    def marches(self) -> bool:
        return True

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        if not self.servers.local_sum:
            return []
        message = f"local_sum adds gradients on their way, and {compression} ones cannot be added; leave it out"
        return [Mistake(message, key="servers.local_sum", got="true", allowed="false")]

    def desk(self, job: Job) -> Desk:
        if not self.servers.whole:
            return super().desk(job)
        sizes, nodes = [bucket.num_bytes for bucket in job.buckets], self.servers.nodes(job)
        owned = zip(sizes, self.servers.owners(sizes), strict=True)
        return Desk(job, [self._exchange_at([nodes[owner]], job, size) for size, owner in owned])

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Schedule push and pull of one bucket of which every server has a share."""
        return self._exchange_at(self.servers.nodes(job), job, num_bytes)

    def _exchange_at(self, nodes: list[Hashable], job: Job, num_bytes: float) -> Exchange:
        """Schedule push and pull at servers on `nodes`; workers are ranks 0 to n - 1, servers come after them."""
        share, wire = num_bytes / len(nodes), job.wire
        groups = by_host(job.hosts) if self.servers.local_sum else [[rank] for rank in range(job.num_ranks)]
        leaders = np.array([group[0] for group in groups])
        others = np.array([rank for group in groups for rank in group[1:]], dtype=np.int64)
        heads = np.array([group[0] for group in groups for _ in group[1:]], dtype=np.int64)
        servers = np.arange(job.num_ranks, job.num_ranks + len(nodes))
        worker = np.repeat(leaders, len(nodes))
        server = np.tile(servers, len(leaders))
        shard = server - job.num_ranks
        up = Step.of(others, heads, num_bytes, num_chunks=len(nodes), reduce=True)
        down = Step.of(heads, others, num_bytes * wire.back_per_byte, num_chunks=len(nodes))
        push = Step.of(worker, server, share, shard, reduce=True)
        pull = Step.of(server, worker, share * wire.back_per_byte, shard)
        steps = [up, push, pull, down] if len(others) else [push, pull]
        schedule = Schedule.from_steps(job.num_ranks + len(nodes), steps, granularity=len(nodes))
        pulling = 2 if len(others) else 1
        moved = (wire.added_per_byte - 1) * BYTES_MOVED_PER_ADDED * len(leaders)  # beside what adding takes already
        unpacked = share * moved / job.update_bytes_per_byte
        delay_s = np.zeros((schedule.num_ranks, schedule.num_steps))
        delay_s[servers, pulling] = [update_s(job, node, share + unpacked) for node in nodes]
        return Exchange(schedule, [*job.buffer_nodes(), *nodes], "server", pulling, delay_s)
