"""Strategies whose workers push gradients to parameter servers and pull parameters, each at its own pace."""

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
    """Workers push gradients to servers and pull parameters, each at its own pace.

    A subclass says when the servers update and when a worker may pull (`update_rule`).
    """

    allows_whole_buckets: ClassVar[bool] = False
    """Whether a bucket may be on one server only."""

    servers: Servers = Field(default=Servers(), description="how many servers, and where")

    @field_validator("servers")
    @classmethod
    def _servers_fit_asynchronous_workers(cls, value: Servers) -> Servers:
        if value.local_sum:
            raise InputError(
                "local_sum makes the workers of a host wait for each other; take strategy `hierarchical`, or `server` "
                "if all workers wait for each other",
                got="true",
                allowed="false",
            )
        if value.whole and not cls.allows_whole_buckets:
            raise InputError(
                "whole buckets are simulated with strategy `server` or `hierarchical` only",
                got=str(value.whole).lower(),
                allowed="false",
                key="whole",
            )
        if key := value.synchronous_key():
            raise InputError(
                f"{key} has an effect only where all workers wait for each other: strategy `server`",
                got=str(getattr(value, key)).lower(),
                allowed=str(Servers.model_fields[key].default).lower(),
                key=key,
            )
        return value

    def assumptions(self) -> tuple[str, ...]:
        return (
            "A server takes one gradient after another, on one core, where workers push at their own pace (async, "
            "softsync, bounded-staleness, backup, hierarchical). Strategy server adds gradients in parallel and "
            "updates once for all workers, so part of a difference between these is one of servers.",
        )

    @property
    def updates_on_gpu(self) -> bool:
        return False

    def gradients_per_update(self, num_workers: int, num_hosts: int) -> float:
        return float(self.update_rule(num_workers).gradients_per_update)

    @abstractmethod
    def update_rule(self, num_workers: int) -> UpdateRule:
        """Return which gradients make an update of the servers, and when a worker may pull."""

    def learning_rate(self, staleness: int) -> float:
        """Return the learning rate of a gradient of this staleness, relative to that of a fresh one."""
        return 1.0

    def start(self, job: Job, on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start all workers, or run the job in compiled kernels; return an event for the end of the measurement."""
        rule = self.update_rule(job.num_ranks)
        parameter_servers = self.parameter_servers(job, ServedModel(job, rule, self.learning_rate))
        job.gradients_per_update = rule.gradients_per_update
        job.server_s = busiest_server_s([parameter_servers])
        job.window = update_window(job, rule, job.num_ranks, on_progress)
        if self._num_messages(job, rule) > MOST_PYTHON_MESSAGES and rule.has_kernels and job.can_use_kernels:
            return self._run_compiled(job, rule, job.window, on_progress)
        for rank in range(job.num_ranks):
            job.env.process(self.worker(job, parameter_servers, job.window, rank))
        return job.window.finished

    def start_layout(self, jobs: Sequence[Job], on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start the replicas of the model, each as one worker: its gradient consists of those of all its places.

        Each place has its own servers, at the nodes at which a job of its ranks has them.
        """
        first, rule = jobs[0], self.update_rule(jobs[0].num_ranks)
        model, queues = ServedModel(first, rule, self.learning_rate), dict[tuple[int, Hashable], Queue]()
        servers_of_jobs = [self.parameter_servers(job, model, queues) for job in jobs]
        for job in jobs:
            job.gradients_per_update, job.updates = rule.gradients_per_update, first.updates
            job.server_s = busiest_server_s(servers_of_jobs)
        pushing = next((job for job in jobs if job.buckets), first)
        window = update_window(pushing, rule, first.num_ranks, on_progress, num_places=len(jobs))
        for place, (job, parameter_servers) in enumerate(zip(jobs, servers_of_jobs, strict=True)):
            job.window = window
            for rank in range(job.num_ranks):
                job.env.process(self.worker(job, parameter_servers, window, rank, place * job.num_ranks))
        return window.finished

    def parameter_servers(
        self, job: Job, model: ServedModel, queues: dict[tuple[int, Hashable], Queue] | None = None
    ) -> ParameterServers:
        """Return the servers of a job's buckets; several jobs of one model may share `queues`."""
        sizes, names = [bucket.num_bytes for bucket in job.buckets], [bucket.name for bucket in job.buckets]
        servers_of_buckets = self.servers.servers_of_buckets(sizes, names, job.bytes_per_number)
        return ParameterServers(job, model, self.servers.nodes(job), servers_of_buckets, queues)

    def _num_messages(self, job: Job, rule: UpdateRule) -> int:
        """Return roughly the number of messages of a job: each part of a gradient is pushed, applied, and pulled."""
        assert job.window is not None
        num_gradients = (job.window.num_before + job.window.num_counted) * rule.gradients_per_update
        return num_gradients * len(job.buckets) * 3 * self.servers.num

    def _run_compiled(self, job: Job, rule: UpdateRule, window: Window, on_progress: OnProgress) -> simpy.Event:
        """Run the whole job in compiled kernels now; return an event that fires at the time at which it ended."""
        from clustersim.strategies.kernels.kernel_job import KernelJob  # loads a compiler

        kernel_job = KernelJob(job, window, self.servers.nodes(job), rule.gradients_per_update)
        end_s = kernel_job.run(on_progress)
        kernel_job.note_updates(self.learning_rate)
        return job.env.timeout(end_s - job.env.now)

    def worker(self, job: Job, exchanger: Exchanger, window: Window, rank: int, first_rank: int = 0) -> Process:
        """Train on one GPU: forward, backward, exchange each bucket as it is ready, wait for all buckets, repeat.

        The worker runs until the clock is stopped. It reports each iteration to the window, as `first_rank` + `rank`.
        """
        for iteration in count():
            sender = BucketSender(job, exchanger, rank, iteration)
            yield from compute(job, rank, iteration, sender.send)
            yield from sender.drain()
            job.times.end_s[rank, iteration] = job.env.now
            window.ended(first_rank + rank, job.times.begin_s[rank, iteration])


class StaleServerStrategy(ServerStrategy):
    """Servers apply gradients that are several versions old; the learning rate may depend on the staleness."""

    staleness_aware_rate: bool = Field(
        default=False, description="divide the learning rate of a gradient by its staleness, if that is 1 or more"
    )

    def learning_rate(self, staleness: int) -> float:
        """Return 1 / staleness if the rate is staleness-aware (Zhang et al., 2016), else 1."""
        return 1.0 / staleness if self.staleness_aware_rate and staleness > 1 else 1.0


def busiest_server_s(servers_of_jobs: Sequence[ParameterServers]) -> float:
    """Return how long the busiest server works on a gradient; jobs of one model share servers in the same memory."""
    total: dict[tuple[int, Hashable], float] = {}
    for servers in servers_of_jobs:
        for key, seconds in servers.seconds_per_gradient().items():
            total[key] = total.get(key, 0.0) + seconds
    return max(total.values(), default=0.0)


def update_window(job: Job, rule: UpdateRule, num_pushing: int, on_progress: OnProgress, num_places: int = 1) -> Window:
    """Return the window of updates that is measured of a job in which `num_pushing` workers push to servers.

    Where a worker is a replica over several GPUs, the window ends after an iteration of the ranks at all `num_places`.
    """
    if not job.buckets:
        raise InputError(
            "the model has no parameters, so no gradient is pushed and servers never update; give its layers "
            "parameter_bytes, or take a synchronous strategy such as all-reduce",
            got="no parameters",
        )
    before = updates_before(num_pushing, rule.gradients_per_update, job.num_filling)
    ranks, counted = range(job.num_ranks * num_places), job.num_iterations
    return Window(
        job.env,
        job.updates,
        ranks,
        before,
        counted,
        on_progress,
        counts_gradients=rule.waits_for_updates,
        is_steady=rule.is_steady,
        warnings=rule.warnings,
    )
