"""Local SGD and DiLoCo: workers train independently, and combine their weights every few iterations."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from clustersim.errors import Mistake
from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Exchange, Rendezvous
from clustersim.execution.worker import BucketSender, Process, compute, update
from clustersim.learning.order import MIX, OUTER, ReplicaEvents, ReplicaOrder
from clustersim.shortcuts import Shortcut
from clustersim.strategies.collective_strategy import CollectiveStrategy
from clustersim.strategies.outer_step import OuterNumber, OuterStep


class Local(CollectiveStrategy):
    """Every worker updates its own replica; every `steps` iterations the replicas are averaged (Stich, 2019).

    Averaging is an all-reduce of all weights after the update. With `outer: nesterov` what workers have changed is
    averaged, and applied by an outer optimizer (DiLoCo, `outer_step`). Whole rounds of `steps` iterations are
    simulated. A worker is a GPU, a replica over several, or a group of replicas that shard (`sharding_over`): each rank
    combines its share with those of other groups.
    """

    supports_layouts: ClassVar[bool] = True
    trains_groups: ClassVar[bool] = True
    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset({Shortcut.FOLDED_LAYOUTS})

    kind: Literal["local"] = "local"
    steps: int = Field(
        default=4, ge=1, description="iterations from one averaging to the next (500 in the paper of DiLoCo)"
    )
    outer: Literal["average", "nesterov", "nesterov-in-host"] = Field(
        default="average",
        description="what happens every `steps` iterations: weights are averaged (`average`), or the mean of what "
        "workers have changed is applied by SGD with Nesterov momentum to the weights of the last time (`nesterov`: "
        "DiLoCo), which are stored in GPU memory, or in that of the host, and copied from there and back",
    )
    outer_gradients: OuterNumber = Field(
        default="fp32", description="with an `outer` optimizer: number format in which its gradients are all-reduced"
    )
    overlap: Literal[False] = Field(
        default=False, description="weights are averaged after the update, so no computation overlaps it"
    )

    @property
    def round_length(self) -> int:
        return self.steps

    @property
    def _outer_step(self) -> OuterStep | None:
        in_host = self.outer == "nesterov-in-host"
        return None if self.outer == "average" else OuterStep(self.outer_gradients, in_host)

    @property
    def stored_bytes_per_parameter(self) -> float:
        return 0.0 if self._outer_step is None else self._outer_step.stored_bytes_per_parameter

    def gradients_per_update(self, num_workers: int, num_hosts: int) -> float:
        return 1.0

    def iterations_of(self, num_updates: int, num_workers: int) -> int:
        return -(-num_updates // num_workers)

    def replica_order(self, job: Job, end_s: np.ndarray) -> ReplicaOrder:
        """Return the order in which workers read and update their weights, iteration by iteration."""
        events, num_workers = ReplicaEvents(), len(end_s)
        combine = MIX if self._outer_step is None or num_workers == 1 else OUTER
        for iteration, last_s in enumerate(end_s.max(axis=0).tolist()):
            events.add_iteration(last_s, num_workers)
            if (iteration + 1) % self.steps == 0:
                events.add(last_s, combine)
        mixing = np.full((num_workers, num_workers), 1 / num_workers)
        return ReplicaOrder(num_workers, events, mixing, self.outer_gradients)

    def warnings(self) -> tuple[str, ...]:
        if self._outer_step is not None or "outer_gradients" not in self.model_fields_set:
            return super().warnings()
        unused = "strategy.outer_gradients changes nothing: weights are averaged (outer is average)"
        return (*super().warnings(), unused)

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        if self._outer_step is not None:
            message = f"local averages weights, and {compression} compresses gradients only; set outer_gradients"
            return [Mistake(message, key="outer", got=self.outer, allowed="outer_gradients, without compression")]
        message = f"local averages weights, and {compression} compresses gradients only; take fp16 or none"
        return [Mistake(message, key="kind", got=self.kind, allowed="with compression fp16 or none")]

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Return the all-reduce of the weights that have `num_bytes` bytes of gradients, or of outer gradients."""
        outer = self._outer_step
        return super().exchange(job, num_bytes if outer is None else outer.sent_bytes(job, num_bytes))

    def iterate(self, job: Job, rendezvous: Rendezvous, rank: int, iteration: int) -> Process:
        """Compute a gradient, update the own replica, and combine it with the others at the end of a round."""
        yield from compute(job, rank, iteration)
        yield from update(job, rank, iteration)
        is_last = (iteration + 1) % self.steps == 0
        outer = self._outer_step if is_last and job.num_ranks > 1 else None
        if outer is not None:
            yield from outer.difference(job, rank, iteration)
        job.times.computed_s[rank, iteration] = job.times.exchanged_s[rank, iteration] = job.env.now
        if is_last:
            scale = 1.0 if outer is None else outer.sent_bytes(job, 1.0)
            sender = BucketSender(job, rendezvous, rank, iteration, scale)
            sender.send_all()
            yield from sender.drain()
        if outer is not None:
            yield from outer.update(job, rank, iteration)
