"""Hierarchical: synchronous inside a host, asynchronous between hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import simpy

from clustersim.collectives import BROADCAST, REDUCE
from clustersim.communicator.algorithm import by_host
from clustersim.errors import Mistake
from clustersim.execution.job import Job, OnProgress
from clustersim.execution.rendezvous import Exchange, Rendezvous
from clustersim.execution.worker import BucketId, Process
from clustersim.program import Bucket
from clustersim.stragglers import Awaited
from clustersim.strategies.parameter_server import ParameterServers, ServedModel
from clustersim.strategies.server_strategy import StaleServerStrategy, busiest_server_s, update_window
from clustersim.strategies.update_rule import UpdateRule


class Hierarchical(StaleServerStrategy):
    """The workers of a host add their gradients; the first of them pushes the sum to asynchronous servers.

    Inside a host, a binomial tree reduces gradients and broadcasts parameters. Each update applies the sum of one host.
    With one GPU in each host this is `async`, with a single host it is synchronous.
    """

    kind: Literal["hierarchical"] = "hierarchical"
    allows_whole_buckets: ClassVar[bool] = True

    @property
    def layout_refusal(self) -> str | None:
        return "first adds gradients between the workers of a host, and takes each GPU for a worker"

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        message = (
            f"hierarchical adds gradients inside a host, but {compression} gradients cannot be added; take fp16 or none"
        )
        return [Mistake(message, key="kind", got=self.kind, allowed="with compression fp16 or none")]

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        in_host = -(-num_workers // num_hosts)
        return Awaited(in_host, in_host)

    def gradients_per_update(self, num_workers: int, num_hosts: int) -> float:
        return num_workers / num_hosts

    def members(self, hosts: np.ndarray) -> list[Sequence[int]]:
        groups = {group[0]: group for group in by_host(hosts)}
        return [groups.get(worker, ()) for worker in range(len(hosts))]

    def update_rule(self, num_workers: int) -> UpdateRule:
        return UpdateRule(gradients_per_update=1)

    def start(self, job: Job, on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start all workers, those of each host synchronous; return an event that fires when the window is measured."""
        groups = by_host(job.hosts)
        rule = self.update_rule(len(groups))
        parameter_servers = self.parameter_servers(job, ServedModel(job, rule, self.learning_rate))
        job.gradients_per_update, job.server_s = 1, busiest_server_s([parameter_servers])
        job.gradients_per_push = np.zeros(job.num_ranks, dtype=np.int64)
        job.gradients_per_push[[group[0] for group in groups]] = [len(group) for group in groups]
        job.window = update_window(job, rule, len(groups), on_progress)
        for group in groups:
            exchanger = _HostExchanger(job, group, parameter_servers)
            for rank in group:
                job.env.process(self.worker(job, exchanger, job.window, rank))
        return job.window.finished


class _HostExchanger:
    """Exchanges the buckets of the workers of one host: reduce, push and pull by the first worker, broadcast."""

    def __init__(self, job: Job, ranks: list[int], parameter_servers: ParameterServers):
        self._parameter_servers = parameter_servers
        self._leader = ranks[0]
        self._places = {rank: place for place, rank in enumerate(ranks)}
        nodes = [job.buffer_nodes()[rank] for rank in ranks]
        sizes = [bucket.num_bytes for bucket in job.buckets]
        trees = {size: [table["tree"](len(ranks), size) for table in (REDUCE, BROADCAST)] for size in {*sizes}}
        reduces, broadcasts = zip(*(trees[size] for size in sizes), strict=True)
        self._reduce = Rendezvous(job, [Exchange(each, nodes, "tree", each.num_steps) for each in reduces], ranks)
        self._broadcast = Rendezvous(job, [Exchange(each, nodes, "tree", each.num_steps) for each in broadcasts], ranks)

    def leaves_worker(self, bucket: int) -> bool:
        """Return True: every bucket leaves its GPU."""
        return True

    def exchange(self, where: BucketId, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Add a bucket inside the host, push the sum and pull parameters, broadcast these inside the host."""
        yield from self._reduce.exchange(where, bucket, pushed)
        if where[0] == self._leader:
            yield from self._parameter_servers.exchange(where, bucket, None)
        yield self._broadcast.enter(where).done(self._places[where[0]])
