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
from clustersim.strategies.local_sums import parts_of
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
        return [Mistake(message, key="servers.local_sum", got=str(self.servers.local_sum).lower(), allowed="false")]

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
        parts = parts_of(groups, len(nodes), self.servers.local_sum == "scattered")
        servers = np.arange(job.num_ranks, job.num_ranks + len(nodes))
        sent = parts.to_servers(len(nodes), num_bytes)
        push = sent._replace(dst=servers[sent.dst])
        back = sent.num_bytes * wire.back_per_byte
        pull = Step.of(push.dst, push.src, back, sent.chunk, sent.num_chunks)
        up, down = parts.inside(num_bytes)
        down = down._replace(num_bytes=down.num_bytes * wire.back_per_byte)
        steps = [up, push, pull, down] if len(parts.giver) else [push, pull]
        schedule = Schedule.from_steps(job.num_ranks + len(nodes), steps, granularity=parts.granularity)
        pulling = 2 if len(parts.giver) else 1
        moved = (wire.added_per_byte - 1) * BYTES_MOVED_PER_ADDED * len(groups)  # beside what adding takes already
        unpacked = share * moved / job.update_bytes_per_byte
        delay_s = np.zeros((schedule.num_ranks, schedule.num_steps))
        delay_s[servers, pulling] = [update_s(job, node, share + unpacked) for node in nodes]
        return Exchange(schedule, [*job.buffer_nodes(), *nodes], "server", pulling, delay_s)
