"""Synchronous parameter server: workers push gradients, servers add and update, workers pull parameters."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from clustersim.collectives import Schedule, Step
from clustersim.communicator.algorithm import by_host
from clustersim.communicator.receive_cost import with_receive_cost
from clustersim.errors import Mistake
from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Exchange, Rendezvous
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.shortcuts import Shortcut
from clustersim.strategies.copy_stream_rendezvous import CopyStreamRendezvous, in_one_stream
from clustersim.strategies.local_sums import parts_of
from clustersim.strategies.server_rendezvous import ServerRendezvous, ServerShare
from clustersim.strategies.servers import Servers, update_s
from clustersim.strategies.synchronous import Synchronous
from clustersim.topology import Node


class Server(Synchronous):
    """All workers wait for the servers' update of every iteration.

    A bucket is pushed to all servers at once, each its share, or to the one that has it whole; a server that has
    every worker's share updates and sends it back. A worker pushes its next bucket when it has pushed this one: while
    one is pulled the next is pushed, which is what a full-duplex link is for.
    """

    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset(
        {Shortcut.IDENTICAL_ITERATIONS, Shortcut.IDENTICAL_REPLICATES, Shortcut.VECTORIZED_WORKERS}
    )

    kind: Literal["server"] = "server"
    servers: Servers = Field(default=Servers(), description="how many servers, and where")

    @property
    def updates_on_gpu(self) -> bool:
        return self.servers.update_on == "workers"

    @property
    def has_processes(self) -> bool:
        return self.servers.on not in ("gpu0", "gpus")

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        """Return the keys by which gradients would be added on their way, which those of a compression cannot be."""
        mistakes, rest = [], f"and {compression} ones cannot be added; leave it out"
        if self.servers.local_sum:
            message = f"local_sum adds gradients on their way, {rest}"
            got = str(self.servers.local_sum).lower()
            mistakes.append(Mistake(message, key="servers.local_sum", got=got, allowed="false"))
        if self.servers.update_on == "workers":
            message = f"update_on: workers has servers add gradients and hand sums out, {rest}"
            mistakes.append(Mistake(message, key="servers.update_on", got="workers", allowed="servers"))
        return mistakes

    def rendezvous(self, job: Job) -> Rendezvous:
        """Return where workers exchange buckets: at servers that hand out at once, or that take their time."""
        sizes, nodes = [bucket.num_bytes for bucket in job.buckets], self.servers.nodes(job)
        places = self.servers.holders(sizes, [bucket.name for bucket in job.buckets], job.bytes_per_number)
        kinds = [(tuple(numbers), size) for numbers, size in zip(places, sizes, strict=True)]
        known = {
            (numbers, size): self._exchange_at([nodes[number] for number in numbers], job, size)
            for numbers, size in dict.fromkeys(kinds)
        }
        exchanges = [known[kind] for kind in kinds]
        if not self.servers.is_patient:
            return Rendezvous(job, exchanges)
        shares = [
            [ServerShare(number, self._update_s(job, nodes[number], size / len(numbers))) for number in numbers]
            for numbers, size in kinds
        ]
        ways, together = self.servers, self.servers.pull == "together"
        if not ways.one_stream:
            return ServerRendezvous(job, exchanges, shares, ways.one_core, together)
        ranks = [] if ways.update_on == "workers" else ways.gpu_ranks(job)
        receivers = [[ranks[number] for number in numbers if ranks] for numbers in places]
        return CopyStreamRendezvous(job, exchanges, shares, together, receivers)

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Schedule push and pull of one bucket of which every server has a share."""
        return self._exchange_at(self.servers.nodes(job), job, num_bytes)

    def _exchange_at(self, nodes: list[Hashable], job: Job, num_bytes: float) -> Exchange:
        """Schedule push and pull at servers on `nodes`; workers are ranks 0 to n - 1, servers come after them.

        Servers that may have to wait are several for each: one that takes, and behind all of those one that gives.
        """
        share, wire = num_bytes / len(nodes), job.wire
        parts = parts_of(self._groups(job), len(nodes), self.servers.local_sum == "scattered")
        servers = np.arange(job.num_ranks, job.num_ranks + len(nodes))
        num_ends, behind = self._num_ends(), len(nodes) if self.servers.is_patient else 0
        sent = parts.to_servers(len(nodes), num_bytes)
        push = sent._replace(dst=servers[sent.dst])
        back = sent.num_bytes * wire.back_per_byte
        pull = Step.of(push.dst + behind, push.src, back, sent.chunk, sent.num_chunks)
        up, down = parts.inside(num_bytes)
        down = down._replace(num_bytes=down.num_bytes * wire.back_per_byte)
        topology, places = job.network.topology, [*self.servers.worker_nodes(job), *nodes * num_ends]
        pulls = in_one_stream(pull, places, len(nodes)) if self.servers.one_stream else [pull]
        steps = [up, push, *pulls, down] if len(parts.giver) else [push, *pulls]
        taken_in, threads = with_receive_cost(steps, [topology.node(place) for place in places], topology)
        places += map(Node, threads)
        schedule = Schedule.from_steps(len(places), list(chain(*taken_in)), granularity=parts.granularity)
        pulling = sum(map(len, taken_in[: 2 if len(parts.giver) else 1]))
        delay_s = np.zeros((schedule.num_ranks, schedule.num_steps))
        if not self.servers.is_patient:
            delay_s[servers, pulling] = [self._update_s(job, node, share) for node in nodes]
        return Exchange(schedule, places, "server", pulling, delay_s)

    def _num_ends(self) -> int:
        """Return how many ranks of an exchange a server is."""
        if self.servers.one_stream:
            return CopyStreamRendezvous.num_ends
        return ServerRendezvous.num_ends if self.servers.is_patient else 1

    def _groups(self, job: Job) -> list[list[int]]:
        """Return the ranks whose gradients are pushed as one."""
        return by_host(job.hosts) if self.servers.local_sum else [[rank] for rank in range(job.num_ranks)]

    def _update_s(self, job: Job, node: Hashable, share: float) -> float:
        """Return the seconds of unpacking and of the update of so many bytes of a bucket at a server."""
        moved = (job.wire.added_per_byte - 1) * BYTES_MOVED_PER_ADDED * len(self._groups(job))  # beside adding itself
        unpacked = share * moved / job.update_bytes_per_byte
        updated = 0.0 if self.updates_on_gpu else share
        return update_s(job, node, updated + unpacked, self.servers.one_core)
