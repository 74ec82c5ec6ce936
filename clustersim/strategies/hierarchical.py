"""Hierarchical: synchronous inside a host, asynchronous between hosts."""

from __future__ import annotations

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
from clustersim.strategies.server_strategy import StaleServerStrategy, window_of
from clustersim.strategies.update_rule import UpdateRule


class Hierarchical(StaleServerStrategy):
    """The workers of a host add their gradients; the host's first worker takes the sum to asynchronous servers.

    Inside a host, a binomial tree adds and hands out. An update is a host's; with one GPU a host this is `async`,
    with one host it is synchronous.
    """

    kind: Literal["hierarchical"] = "hierarchical"
    may_have_whole: ClassVar[bool] = True

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        message = (
            f"hierarchical adds gradients inside a host, and {compression} ones cannot be added; take fp16 or none"
        )
        return [Mistake(message, key="kind", got=self.kind, allowed="with compression fp16 or none")]

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        in_host = -(-num_workers // num_hosts)
        return Awaited(in_host, in_host)

    def rule(self, num_workers: int) -> UpdateRule:
        return UpdateRule(gradients_per_update=1)

    def start(self, job: Job, tell: OnProgress = lambda share: None) -> simpy.Event:
        """Let the workers of every host go round together until what counts is done."""
        groups = by_host(job.hosts)
        rule = self.rule(len(groups))
        parameter_servers = self.parameter_servers(job, ServedModel(job, rule, self.learning_rate))
        job.gradients_per_update = 1
        job.gradients_per_push = np.zeros(job.num_ranks, dtype=np.int64)
        job.gradients_per_push[[group[0] for group in groups]] = [len(group) for group in groups]
        job.window = window_of(job, rule, len(groups), tell)
        for group in groups:
            meeting = _HostExchanger(job, group, parameter_servers)
            for rank in group:
                job.env.process(self.worker(job, meeting, job.window, rank))
        return job.window.finished


class _HostExchanger:
    """The workers of one host on their way to the servers and back."""

    def __init__(self, job: Job, ranks: list[int], parameter_servers: ParameterServers):
        self._parameter_servers = parameter_servers
        self._leader = ranks[0]
        self._places = {rank: place for place, rank in enumerate(ranks)}
        nodes = [job.buffer_nodes()[rank] for rank in ranks]
        sizes = [bucket.num_bytes for bucket in job.buckets]
        trees = {size: [ways["tree"](len(ranks), size) for ways in (REDUCE, BROADCAST)] for size in {*sizes}}
        up, down = zip(*(trees[size] for size in sizes), strict=True)
        self._up = Rendezvous(job, [Exchange(each, nodes, "tree", each.num_steps) for each in up], ranks)
        self._down = Rendezvous(job, [Exchange(each, nodes, "tree", each.num_steps) for each in down], ranks)

    def leaves_worker(self, bucket: int) -> bool:
        """Say that every bucket leaves its GPU."""
        return True

    def exchange(self, where: BucketId, bucket: Bucket, pushed: simpy.Event | None) -> Process:
        """Add a bucket over the host, take the sum to the servers, hand the parameters out in the host."""
        yield from self._up.exchange(where, bucket, pushed)
        if where[0] == self._leader:
            yield from self._parameter_servers.exchange(where, bucket, None)
        yield self._down.enter(where).done(self._places[where[0]])
