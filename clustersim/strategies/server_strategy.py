"""The worker of a strategy whose gradients meet at servers, without marching in step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from itertools import count
from typing import ClassVar

import simpy
from pydantic import Field, field_validator

from clustersim.devices import Queue
from clustersim.errors import InputError
from clustersim.execution.job import Job, OnProgress
from clustersim.execution.window import Window, updates_before
from clustersim.execution.worker import BucketSender, Exchanger, Process, compute
from clustersim.network.network import MOST_PYTHON_MESSAGES
from clustersim.strategies.parameter_server import ParameterServers, ServedModel
from clustersim.strategies.servers import Servers
from clustersim.strategies.strategy import Strategy
from clustersim.strategies.update_rule import UpdateRule


class ServerStrategy(Strategy):
    """Workers push gradients to servers and pull parameters, each at its own pace."""

    may_have_whole: ClassVar[bool] = False
    """Whether servers may have whole buckets."""

    servers: Servers = Field(default=Servers(), description="how many servers, and where")

    @field_validator("servers")
    @classmethod
    def _workers_push_for_themselves(cls, value: Servers) -> Servers:
        if value.local_sum:
            raise InputError(
                "local_sum makes the workers of a host wait for each other; that is the strategy `hierarchical`, or "
                "`server` where all wait for all",
                got="true",
                allowed="false",
            )
        if value.whole and not cls.may_have_whole:
            raise InputError(
                "whole buckets on one server each are simulated where all workers wait for all, or hosts go by "
                "themselves: strategy `server` or `hierarchical`",
                got=str(value.whole).lower(),
                allowed="false",
            )
        if way := value.own_ways():
            raise InputError(
                f"{way} says how servers update where all workers wait for all: strategy `server`",
                got=str(getattr(value, way)).lower(),
                allowed=str(Servers.model_fields[way].default).lower(),
            )
        return value

    @property
    def updates_on_gpu(self) -> bool:
        return False

    @abstractmethod
    def rule(self, num_workers: int) -> UpdateRule:
        """Return when the servers update, and when a worker may read."""

    def learning_rate(self, staleness: int) -> float:
        """Return the learning rate of a gradient of this staleness, relative to the one that is set."""
        return 1.0

    def start(self, job: Job, tell: OnProgress = lambda share: None) -> simpy.Event:
        """Let every worker go round until what counts is done."""
        job.go_inside()
        rule = self.rule(job.num_ranks)
        parameter_servers = self.parameter_servers(job, ServedModel(job, rule, self.learning_rate))
        job.gradients_per_update = rule.gradients_per_update
        job.window = window_of(job, rule, job.num_ranks, tell)
        if self._num_messages(job, rule) > MOST_PYTHON_MESSAGES and rule.is_simple and job.may_be_compiled:
            return self._play_compiled(job, rule, job.window, tell)
        for rank in range(job.num_ranks):
            job.clock.process(self.worker(job, parameter_servers, job.window, rank))
        return job.outside(job.window.finished)

    def start_places(self, jobs: Sequence[Job], tell: OnProgress = lambda share: None) -> simpy.Event:
        """Let every copy of the model go round as one worker does: its gradient is that of all its places together.

        The servers of a place are where those of a job of its ranks are.
        """
        first, rule = jobs[0], self.rule(jobs[0].num_ranks)
        model, queues = ServedModel(first, rule, self.learning_rate), dict[tuple[int, Hashable], Queue]()
        banks = [self.parameter_servers(job, model, queues) for job in jobs]
        for job in jobs:
            job.gradients_per_update, job.updates = rule.gradients_per_update, first.updates
        pushing = next((job for job in jobs if job.buckets), first)
        window = window_of(pushing, rule, first.num_ranks, tell, num_places=len(jobs))
        for place, (job, parameter_servers) in enumerate(zip(jobs, banks, strict=True)):
            job.window = window
            for rank in range(job.num_ranks):
                job.clock.process(self.worker(job, parameter_servers, window, rank, place * job.num_ranks))
        return window.finished

    def parameter_servers(
        self, job: Job, model: ServedModel, queues: dict[tuple[int, Hashable], Queue] | None = None
    ) -> ParameterServers:
        """Return the servers of a job's buckets; those of several jobs of one model may share `queues`."""
        sizes, names = [bucket.num_bytes for bucket in job.buckets], [bucket.name for bucket in job.buckets]
        return ParameterServers(
            job, model, self.servers.nodes(job), self.servers.holders(sizes, names, job.bytes_per_number), queues
        )

    def _num_messages(self, job: Job, rule: UpdateRule) -> int:
        """Return about how many messages the job has: each part of a gradient is pushed, applied, and pulled back."""
        assert job.window is not None
        num_gradients = (job.window.num_before + job.window.num_counted) * rule.gradients_per_update
        return num_gradients * len(job.buckets) * 3 * self.servers.num

    def _play_compiled(self, job: Job, rule: UpdateRule, window: Window, tell: OnProgress) -> simpy.Event:
        """Play all at once in kernels; return what happens when that is over."""
        from clustersim.strategies.kernels.kernel_job import KernelJob  # loads a compiler

        rounds = KernelJob(job, window, self.servers.nodes(job), rule.gradients_per_update)
        end_s = rounds.play(tell)
        rounds.note_updates(self.learning_rate)
        return job.env.timeout(end_s - job.env.now)

    def worker(self, job: Job, meeting: Exchanger, window: Window, rank: int, ahead: int = 0) -> Process:
        """Train on one GPU: forward, backward, hand in each bucket as it is ready, have fresh parameters back, repeat.

        It goes round until the clock is stopped, and tells the window of each iteration; there it has so many `ahead`.
        """
        for iteration in count():
            sender = BucketSender(job, meeting, rank, iteration)
            yield from compute(job, rank, iteration, sender.send)
            yield from sender.emptied()
            job.times.end_s[rank, iteration] = job.clock.now
            window.ended(ahead + rank, job.times.begin_s[rank, iteration])


class StaleServerStrategy(ServerStrategy):
    """Gradients are applied to versions that have moved on; the learning rate may take that into account."""

    staleness_aware_rate: bool = Field(
        default=False, description="divide a gradient's learning rate by its staleness where that is 1 or more"
    )

    def learning_rate(self, staleness: int) -> float:
        """Return 1 / staleness where the rate is staleness-aware (Zhang et al., 2016), else 1."""
        return 1.0 / staleness if self.staleness_aware_rate and staleness > 1 else 1.0


def window_of(job: Job, rule: UpdateRule, num_pushing: int, tell: OnProgress, num_places: int = 1) -> Window:
    """Return the window of a job's updates, to whose servers so many of its workers push.

    Where a worker is a copy of a model, the ranks at all `num_places` of it have to end what they have begun.
    """
    if not job.buckets:
        raise InputError(
            "the model has no parameters, so that no gradient is pushed and servers never update; give its layers "
            "parameter_bytes, or a strategy in which workers march in step, such as all-reduce",
            got="no parameters",
        )
    before = updates_before(num_pushing, rule.gradients_per_update, job.num_filling)
    ranks, counted = range(job.num_ranks * num_places), job.num_iterations
    return Window(job.clock, job.updates, ranks, before, counted, tell, counts_gradients=rule.waits_for_updates)
