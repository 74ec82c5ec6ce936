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
from clustersim.strategies.copy_stream_rendezvous import CopyStreamRendezvous, serial_pull
from clustersim.strategies.local_sums import PushedParts, push_parts
from clustersim.strategies.server_rendezvous import ServerRendezvous, ServerShare
from clustersim.strategies.servers import Servers, update_s
from clustersim.strategies.synchronous import Synchronous
from clustersim.topology import Node


class Server(Synchronous):
    """Synchronous parameter servers: all workers wait for the servers' update in every iteration.

    A worker pushes a share of each bucket to each server in parallel, or the whole bucket to one server. A server
    updates when it has the shares of all workers, and then the workers pull the parameters. A worker pushes the next
    bucket as soon as the push of this one has ended, so pushes and pulls overlap on full-duplex links.
    """

    synchronizes_replicas: ClassVar[bool] = True
    supports_layouts: ClassVar[bool] = True
    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset(
        {Shortcut.IDENTICAL_ITERATIONS, Shortcut.IDENTICAL_REPLICATES, Shortcut.VECTORIZED_WORKERS}
    )

    kind: Literal["server"] = "server"
    servers: Servers = Field(default=Servers(), description="how many servers, and where")

    def assumptions(self) -> tuple[str, ...]:
        updates = "one bucket after another, on one core" if self.servers.one_core else "buckets in parallel"
        return (
            f"Servers add the gradients of all workers in parallel, and update {updates}. Where workers push at their "
            "own pace (async, softsync, bounded-staleness, backup, hierarchical), a server takes one gradient after "
            "another on one core, so part of a difference between these is one of servers.",
        )

    @property
    def updates_on_gpu(self) -> bool:
        return self.servers.update_on == "workers"

    @property
    def has_processes(self) -> bool:
        return self.servers.on not in ("gpu0", "gpus")

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        """Return a mistake for each key that adds gradients outside the update, if compressed ones cannot be added."""
        mistakes, rest = [], f"but {compression} gradients cannot be added; leave it out"
        if self.servers.local_sum:
            message = f"local_sum adds gradients before they are pushed, {rest}"
            got = str(self.servers.local_sum).lower()
            mistakes.append(Mistake(message, key="servers.local_sum", got=got, allowed="false"))
        if self.servers.update_on == "workers":
            message = f"with update_on: workers, servers add gradients and workers pull the sums, {rest}"
            mistakes.append(Mistake(message, key="servers.update_on", got="workers", allowed="servers"))
        return mistakes

    def rendezvous(self, job: Job) -> Rendezvous:
        """Return the rendezvous of the exchanges; a `ServerRendezvous` if pulls may start later than pushes end."""
        sizes, nodes = [bucket.num_bytes for bucket in job.buckets], self.servers.nodes(job)
        names = [bucket.name for bucket in job.buckets]
        servers_of_buckets = self.servers.servers_of_buckets(sizes, names, job.bytes_per_number)
        kinds = [(tuple(numbers), size) for numbers, size in zip(servers_of_buckets, sizes, strict=True)]
        exchange_of = {
            (numbers, size): self._exchange_at([nodes[number] for number in numbers], job, size)
            for numbers, size in dict.fromkeys(kinds)
        }
        exchanges = [exchange_of[kind] for kind in kinds]
        if not self.servers.delays_pulls:
            return Rendezvous(job, exchanges)
        shares = [
            [ServerShare(number, self._update_s(job, nodes[number], size / len(numbers))) for number in numbers]
            for numbers, size in kinds
        ]
        servers, pulls_together = self.servers, self.servers.pull == "together"
        if not servers.one_stream:
            return ServerRendezvous(job, exchanges, shares, servers.one_core, pulls_together)
        ranks = [] if servers.update_on == "workers" else servers.gpu_ranks(job)
        receivers = [[ranks[number] for number in numbers if ranks] for numbers in servers_of_buckets]
        return CopyStreamRendezvous(job, exchanges, shares, pulls_together, receivers)

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Return push and pull of one bucket of which every server has an equal share."""
        return self._exchange_at(self.servers.nodes(job), job, num_bytes)

    def _exchange_at(self, nodes: list[Hashable], job: Job, num_bytes: float) -> Exchange:
        """Return push and pull at servers on `nodes`; workers are ranks 0 to n - 1, servers come after them.

        Servers that may delay pulls have several ranks each: first a receiving rank of each server, then a sending one.
        """
        ends = [*self.servers.worker_nodes(job), *nodes * self._ranks_per_server()]
        parts = push_parts(self._groups(job), len(nodes), self.servers.local_sum == "scattered")
        pushes = self._push_steps(job, parts, len(nodes), num_bytes)
        pulls = self._pull_steps(job, parts, pushes[-1], num_bytes, ends, len(nodes))
        topology = job.network.topology
        received, threads = with_receive_cost([*pushes, *pulls], [topology.node(end) for end in ends], topology)
        ends += map(Node, threads)
        schedule = Schedule.from_steps(len(ends), list(chain(*received)), granularity=parts.granularity)
        first_pull = sum(map(len, received[: len(pushes)]))
        delay_s = np.zeros((schedule.num_ranks, schedule.num_steps))
        if not self.servers.delays_pulls:
            servers = np.arange(job.num_ranks, job.num_ranks + len(nodes))
            delay_s[servers, first_pull] = [self._update_s(job, node, num_bytes / len(nodes)) for node in nodes]
        return Exchange(schedule, ends, "server", first_pull, delay_s)

    def _push_steps(self, job: Job, parts: PushedParts, num_servers: int, num_bytes: float) -> list[Step]:
        """Return the steps of a push: the local sum in each host, if there is one, and the messages to the servers."""
        push = parts.to_servers(num_servers, num_bytes)
        push = push._replace(dst=push.dst + job.num_ranks)
        return [parts.local_sum(num_bytes), push] if parts.has_local_sum else [push]

    def _pull_steps(
        self, job: Job, parts: PushedParts, push: Step, num_bytes: float, ends: list[Hashable], num_servers: int
    ) -> list[Step]:
        """Return the steps of the pull that answers a push, and the copies inside each host after it, if any."""
        per_byte = job.wire.back_per_byte
        sender = push.dst + (num_servers if self.servers.delays_pulls else 0)
        pull = Step.of(sender, push.src, push.num_bytes * per_byte, push.chunk, push.num_chunks)
        steps = serial_pull(pull, ends, num_servers) if self.servers.one_stream else [pull]
        if not parts.has_local_sum:
            return steps
        local = parts.local_copies(num_bytes)
        return [*steps, local._replace(num_bytes=local.num_bytes * per_byte)]

    def _ranks_per_server(self) -> int:
        """Return the number of ranks that each server has in an exchange."""
        if self.servers.one_stream:
            return CopyStreamRendezvous.ranks_per_server
        return ServerRendezvous.ranks_per_server if self.servers.delays_pulls else 1

    def _groups(self, job: Job) -> list[list[int]]:
        """Return groups of ranks; the gradients of each group are added before they are pushed."""
        return by_host(job.hosts) if self.servers.local_sum else [[rank] for rank in range(job.num_ranks)]

    def _update_s(self, job: Job, node: Hashable, share: float) -> float:
        """Return the seconds in which a server unpacks and updates its share of a bucket, in bytes."""
        moved = (job.wire.added_per_byte - 1) * BYTES_MOVED_PER_ADDED * len(self._groups(job))  # in addition to adding
        unpacked = share * moved / job.update_bytes_per_byte
        updated = 0.0 if self.updates_on_gpu else share
        return update_s(job, node, updated + unpacked, self.servers.one_core)
