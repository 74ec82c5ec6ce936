"""Gossip: every worker averages its replica with those of its neighbours only."""

from __future__ import annotations

from array import array
from itertools import count
from typing import Annotated, ClassVar, Literal

import numpy as np
import simpy
from pydantic import Field, WithJsonSchema, field_validator

from clustersim.collectives import Schedule, Step
from clustersim.errors import InputError, Mistake
from clustersim.execution.job import Job, OnProgress
from clustersim.execution.rendezvous import Exchange, Rendezvous
from clustersim.execution.window import Window, updates_before
from clustersim.execution.worker import BucketSender, Process, compute, update
from clustersim.learning.order import APPLY, READ, ReplicaEvents, ReplicaOrder
from clustersim.results import Update
from clustersim.shortcuts import Shortcut
from clustersim.stragglers import Awaited
from clustersim.strategies.graphs import GRAPHS, Edge, diameter, mixing_matrix, neighbours, spectral_gap
from clustersim.strategies.pairs import Pairs
from clustersim.strategies.synchronous import Synchronous

_PAIR = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
_Pair = Annotated[Edge, WithJsonSchema(_PAIR)]  # older editors do not understand the default schema of a pair


MAX_WORKERS, MAX_WORKERS_COMPLETE = 16_384, 1_024
"""The most workers of a sparse graph, and of the complete graph, whose edges are the square of them."""


class Gossip(Synchronous):
    """Every worker has a replica of the model, and averages it with those of its neighbours in each iteration.

    By default a worker waits for its neighbours, so they are at most one iteration apart (D-PSGD; Lian et al., 2017).
    With `asynchronous` it averages with one random neighbour at a time, as soon as that one is free (AD-PSGD; Lian et
    al., 2018). With `overlap` replicas are averaged while gradients are computed on them, else after that.
    """

    supports_layouts: ClassVar[bool] = True
    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset(
        {Shortcut.IDENTICAL_ITERATIONS, Shortcut.IDENTICAL_REPLICATES}
    )

    kind: Literal["gossip"] = "gossip"
    graph: str | tuple[_Pair, ...] = Field(
        default="ring",
        description="graph of neighbours: `ring`, `wheel`, `torus`, `random-regular`, `complete`, or pairs of workers "
        "such as `[[0, 1], [1, 2]]`; with a layout, a worker is a replica of the model",
    )
    degree: int = Field(default=4, ge=1, description="neighbours of each worker, for `random-regular`")
    asynchronous: bool = Field(
        default=False, description="average with one random neighbour at a time, without waiting for the others"
    )

    @field_validator("graph")
    @classmethod
    def _graph_is_known(cls, value: str | tuple[Edge, ...]) -> str | tuple[Edge, ...]:
        if isinstance(value, str):
            GRAPHS[value]
            return value
        if not value:
            raise InputError("the graph has no edges; give pairs of workers, or one of " + ", ".join(GRAPHS), got="[]")
        for number, (one, other) in enumerate(value):
            if one == other:
                message = (
                    f"worker {one} cannot be its own neighbour: it averages its own weights anyway; leave the pair out"
                )
                raise InputError(message, got=f"[{one}, {other}]", allowed="two workers", key=str(number))
        return value

    def allows(self, shortcut: Shortcut) -> bool:
        return super().allows(shortcut) and not self.asynchronous  # which draws neighbours at random

    @property
    def layout_refusal(self) -> str | None:
        if self.asynchronous:
            return "is asynchronous: each GPU averages with any free one, and the GPUs of a replica must do so together"
        return super().layout_refusal

    @property
    def node_keys(self) -> frozenset[str]:
        return frozenset({"graph", "degree"})

    @property
    def overlaps_backward(self) -> bool:
        return False

    @property
    def sends_alone(self) -> bool:
        return False

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        return Awaited(1, 1) if self.asynchronous else super().awaited(num_workers, num_hosts)

    def gradients_per_update(self, num_workers: int, num_hosts: int) -> float:
        return 1.0

    def iterations_of(self, num_updates: int, num_workers: int) -> int:
        return num_updates if self.asynchronous else -(-num_updates // num_workers)

    def replica_order(self, job: Job, end_s: np.ndarray) -> ReplicaOrder:
        """Return who read, averaged and updated in which order.

        Synchronous workers wait only for their neighbours. Their iterations are in the order of their numbers, because
        what a worker computes depends on that alone. An iteration has the time at which its last worker ended it.
        """
        if self.asynchronous:
            return ReplicaOrder(job.num_ranks, _read_with_samples(job))
        events, num_workers = ReplicaEvents(), len(end_s)
        for last_s in end_s.max(axis=0).tolist():
            events.add_iteration(last_s, num_workers, mixes=True)
        return ReplicaOrder(num_workers, events, mixing_matrix(self.neighbours(num_workers)))

    def neighbours(self, num_workers: int) -> list[list[int]]:
        """Return the neighbours of each worker [num_workers]."""
        edges = GRAPHS[self.graph](num_workers, self.degree) if isinstance(self.graph, str) else self.graph
        return neighbours(num_workers, edges)

    def mistakes(self, num_workers: int) -> list[Mistake]:
        most = MAX_WORKERS_COMPLETE if self.graph == "complete" else MAX_WORKERS
        if num_workers > most:
            message = f"gossip on this graph is simulated for at most {most} workers"
            return [Mistake(message, key="graph", got=f"{num_workers} workers", allowed=f"at most {most} workers")]
        try:
            self.neighbours(num_workers)
        except InputError as error:
            key = "degree" if self.graph == "random-regular" else "graph"
            return [Mistake(each.message, key=key, got=each.got, allowed=each.allowed) for each in error.mistakes]
        return []

    def warnings(self) -> tuple[str, ...]:
        if "degree" in self.model_fields_set and self.graph != "random-regular":
            return ("strategy.degree changes nothing: only random-regular uses it",)
        return ()

    def facts(self, num_workers: int) -> dict[str, float]:
        """Return the spectral gap of the mixing matrix, which says how fast replicas converge to their average."""
        return {"spectral_gap": spectral_gap(mixing_matrix(self.neighbours(num_workers)))}

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        message = f"gossip averages weights, and {compression} compresses gradients only; take fp16 or none"
        return [Mistake(message, key="kind", got=self.kind, allowed="with compression fp16 or none")]

    def iterations(self, job: Job) -> tuple[int, int]:
        """Return as many warm-up iterations as it takes until the slowest worker delays all others."""
        before = 1 + diameter(self.neighbours(job.num_ranks)) + job.num_filling
        return before, before + job.num_iterations

    def num_after(self, job: Job) -> int:
        """Return 1 where a pipeline stage that has ended sends weights while other stages still compute, else 0."""
        return int(self.overlap and job.work is not None)

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Return one step in which every worker sends its replica to all neighbours, which add it to theirs."""
        near = self.neighbours(job.num_ranks)
        src = [worker for worker, others in enumerate(near) for _ in others]
        dst = [other for others in near for other in others]
        steps = [Step.of(src, dst, num_bytes, reduce=True)] if src else []
        return Exchange(Schedule.from_steps(job.num_ranks, steps), job.buffer_nodes(), "gossip", len(steps))

    def rendezvous(self, job: Job) -> Rendezvous:
        exchanges = [self.exchange(job, bucket.num_bytes) for bucket in job.buckets]
        return Rendezvous(job, exchanges, neighbours=self.neighbours(job.num_ranks))

    def iterate(self, job: Job, rendezvous: Rendezvous | Pairs, rank: int, iteration: int) -> Process:
        """Average the replica with those of neighbours, compute a gradient on it, update."""
        sender = BucketSender(job, rendezvous, rank, iteration)
        if self.overlap:
            sender.send_all()
        yield from compute(job, rank, iteration)
        if not self.overlap:
            sender.send_all()
        yield from sender.drain()
        yield from update(job, rank, iteration)

    def start(self, job: Job, on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start all workers, synchronous with their neighbours or each at its own pace."""
        if not self.asynchronous:
            return super().start(job, on_progress)
        pairs = Pairs(job, self.neighbours(job.num_ranks))
        job.algorithms, job.gradients_per_update = ("gossip",) * len(job.buckets), 1
        before = updates_before(job.num_ranks, 1, job.num_filling)
        job.window = Window(job.env, job.updates, range(job.num_ranks), before, job.num_iterations, on_progress)
        for rank in range(job.num_ranks):
            job.env.process(self._asynchronous_worker(job, pairs, job.window, rank))
        return job.window.finished

    def _asynchronous_worker(self, job: Job, pairs: Pairs, window: Window, rank: int) -> Process:
        """Train on one GPU at its own pace. Every update of any replica makes a version, as in the paper."""
        for iteration in count():
            version_read = len(job.updates)
            job.replica_events.add(job.env.now, READ, rank)
            yield from self.iterate(job, pairs, rank, iteration)
            job.times.end_s[rank, iteration] = job.env.now
            job.replica_events.add(job.env.now, APPLY, rank)
            job.updates.add(Update(job.env.now, rank, version_read, len(job.updates) + 1, 1.0, True))
            window.updated()
            window.ended(rank, job.times.begin_s[rank, iteration])


def _read_with_samples(job: Job) -> ReplicaEvents:
    """Return the events of a job, in which a worker that has to wait for samples reads its weights when it has them."""
    events = job.replica_events
    if job.input_stage is None:
        return events
    time_s, worker = np.array(events.time_s), np.asarray(events.worker)
    for rank in range(job.num_ranks):
        reads = np.flatnonzero((np.asarray(events.kind) == READ) & (worker == rank))
        time_s[reads] = job.times.fetched_s[rank, : len(reads)]
    rows = np.argsort(time_s, kind="stable")  # iterations without samples so far have no time, and come last
    columns = {name: array(column.typecode, np.asarray(column)[rows].tolist()) for name, column in vars(events).items()}
    columns["time_s"] = array("d", time_s[rows].tolist())
    return ReplicaEvents(**columns)
