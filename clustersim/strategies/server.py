"""Synchronous parameter server: workers push gradients, servers add and update, workers pull parameters."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import numpy as np
from pydantic import Field

from clustersim.collectives import Schedule, Step
from clustersim.errors import InputError
from clustersim.spec import Spec
from clustersim.strategies.algorithm import by_host
from clustersim.strategies.job import Job
from clustersim.strategies.strategy import Exchange, Strategy
from clustersim.topology import Node


class Servers(Spec):
    """How many servers, and where. Each holds an equal share of every bucket."""

    num: int = Field(default=1, ge=1, description="number of servers; each holds an equal share of the bytes")
    on: Literal["own-hosts", "workers", "host-memory", "gpu0", "gpus"] = Field(
        default="workers",
        description="`own-hosts`: hosts of their own, after the workers'; `workers`: memory of the workers' hosts; "
        "`host-memory`: memory of the first worker's host; `gpu0`: memory of the first worker's GPU; `gpus`: memory of "
        "the workers' GPUs",
    )
    local_sum: bool = Field(default=False, description="add the gradients of one host before they are pushed")

    def nodes(self, job: Job) -> list[Hashable]:
        """Return the memory that each server lives in [num]."""
        topology, devices = job.network.topology, job.devices
        if self.on == "gpu0":
            return [devices[0].node] * self.num
        if self.on == "host-memory":
            return [devices[0].host_memory] * self.num
        if self.on == "own-hosts":
            free = np.setdiff1d(np.arange(topology.num_hosts), job.hosts)
            after = np.concatenate([free[free > job.hosts.max()], free[free < job.hosts.max()]])
            if len(after) < self.num:
                raise InputError(
                    f"{self.num} servers on hosts of their own need {self.num} more hosts than the workers use; "
                    f"the cluster has {len(after)} left",
                    got=str(self.num),
                    allowed=f"at most {len(after)}",
                )
            first_gpu = [int(np.flatnonzero(topology.gpu_hosts == host)[0]) for host in after[: self.num]]
            return [Node(topology.memory[gpu]) for gpu in first_gpu]
        first_of_host = np.unique(job.hosts, return_index=True)[1]
        places = [device.node for device in devices]
        if self.on == "workers":
            places = [devices[rank].host_memory for rank in sorted(first_of_host.tolist())]
        return [places[number % len(places)] for number in range(self.num)]


class Server(Strategy):
    """All workers wait for the servers' update of every iteration.

    A bucket is pushed to all servers at once, each its share; a server that has every worker's share
    updates and sends it back. A worker pushes its next bucket when it has pushed this one: while one is
    pulled the next is pushed, which is what a full-duplex link is for.
    """

    kind: Literal["server"] = "server"
    servers: Servers = Field(default=Servers(), description="how many servers, and where")

    @property
    def updates_on_gpu(self) -> bool:
        return False

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Schedule push and pull of one bucket; workers are ranks 0 to n - 1, servers come after them."""
        nodes = self.servers.nodes(job)
        share = num_bytes / self.servers.num
        groups = by_host(job.hosts) if self.servers.local_sum else [[rank] for rank in range(job.num_ranks)]
        leaders = np.array([group[0] for group in groups])
        others = np.array([rank for group in groups for rank in group[1:]], dtype=np.int64)
        heads = np.array([group[0] for group in groups for _ in group[1:]], dtype=np.int64)
        servers = np.arange(job.num_ranks, job.num_ranks + len(nodes))
        worker = np.repeat(leaders, len(nodes))
        server = np.tile(servers, len(leaders))
        shard = server - job.num_ranks
        up = Step.of(others, heads, num_bytes, num_chunks=len(nodes), reduce=True)
        down = Step.of(heads, others, num_bytes, num_chunks=len(nodes))
        push = Step.of(worker, server, share, shard, reduce=True)
        pull = Step.of(server, worker, share, shard)
        steps = [up, push, pull, down] if len(others) else [push, pull]
        schedule = Schedule.from_steps(job.num_ranks + len(nodes), steps, granularity=len(nodes))
        pulling = 2 if len(others) else 1
        delay_s = np.zeros((schedule.num_ranks, schedule.num_steps))
        delay_s[servers, pulling] = [self._update_s(job, node, share) for node in nodes]
        return Exchange(schedule, [*job.buffer_nodes(), *nodes], "server", pulling, delay_s)

    def _update_s(self, job: Job, node: Hashable, num_bytes: float) -> float:
        """Return what the optimizer takes in this memory, at the rate of one core there."""
        topology = job.network.topology
        number = topology.node(node)
        adder = topology.adders.get(number)
        if adder is None:
            return 0.0
        bytes_per_s = topology.core_bytes_per_s(number) or float(topology.links.bytes_per_s[adder])
        return num_bytes * job.update_bytes_per_byte / bytes_per_s
