"""PyTorch's DataParallel: one process whose first GPU broadcasts weights and reduces all gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from clustersim.collectives import Schedule, Step
from clustersim.collectives.schedule import Relays
from clustersim.communicator.algorithm import schedule_collective
from clustersim.errors import Mistake
from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Exchange, Rendezvous
from clustersim.program import COPIES, Caps, Copies
from clustersim.program.buckets import FusionBuffer
from clustersim.shortcuts import Shortcut
from clustersim.strategies.synchronous import Synchronous
from clustersim.topology import Topology
from clustersim.units import Size

BUFFER = FusionBuffer(10 * 1024.0**2)
"""`buffer_size` of `broadcast_coalesced` and `reduce_add_coalesced` (torch/nn/parallel/comm.py)."""
_ALGORITHM = "ring"
"""NCCL's broadcast and reduce, which are chains."""


class DataParallel(Synchronous):
    """The first GPU adds all gradients after backward, updates, and broadcasts the weights.

    Reduction and broadcast are NCCL's chains, buffer after buffer, and nothing overlaps them. In the simulation all
    GPUs update at the same time. This takes as long as in reality, where the first GPU updates and the others wait.
    Scattered inputs and gathered outputs are sent one message after another, before the gradients. In reality they are
    sent at other points of the iteration, but nothing overlaps them there either.
    """

    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset(
        {Shortcut.IDENTICAL_ITERATIONS, Shortcut.IDENTICAL_REPLICATES, Shortcut.VECTORIZED_WORKERS}
    )

    buckets_as_software: ClassVar[bool] = False

    kind: Literal["data-parallel"] = "data-parallel"
    overlap: Literal[False] = Field(
        default=False, description="gradients are added after all of backward, so no computation overlaps it"
    )
    buckets: str = Field(
        default="auto",
        description="which gradients travel together: `auto` (as many as fit into PyTorch's buffer of 10 MiB), or a "
        "value of `buckets` of `all-reduce`",
    )
    scattered: Size = Field(
        default=0.0,
        ge=0,
        description="bytes of inputs that the first GPU sends to each other GPU in an iteration, such as '77 MB'",
    )
    gathered: Size = Field(
        default=0.0,
        ge=0,
        description="bytes of outputs that each other GPU sends to the first in an iteration, such as '823 MB'",
    )

    @property
    def sends_alone(self) -> bool:
        return False

    def bucket_caps(self, gradient_bytes: float, num_copies: int, sharding: str | None) -> Caps:
        return BUFFER if self.buckets == "auto" else super().bucket_caps(gradient_bytes, num_copies, sharding)

    def gradient_copies(self, is_whole: bool) -> Copies:
        return COPIES["data-parallel"]

    @property
    def layout_refusal(self) -> str | None:
        return "is one process with the whole model on each GPU"

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        message = f"data-parallel adds gradients, but {compression} gradients cannot be added; leave compression out"
        return [Mistake(message, key="kind", got=self.kind, allowed="with compression fp16 or none")]

    def sharding_mistakes(self, sharding: str) -> list[Mistake]:
        message = f"data-parallel needs whole replicas, and sharding {sharding} divides them; take all-reduce"
        return [Mistake(message, key="kind", got=self.kind, allowed="all-reduce")]

    def placed_mistakes(self, topology: Topology, gpus: np.ndarray, transport: str) -> list[Mistake]:
        """Return a mistake if the GPUs are not all of one host, because DataParallel is one process."""
        num_hosts = len(np.unique(topology.gpu_hosts[gpus]))
        if num_hosts < 2:
            return []
        message = (
            f"DataParallel is one process, and the {len(gpus)} GPUs are on {num_hosts} hosts; take GPUs of one host, "
            "or all-reduce"
        )
        return [Mistake(message, key="kind", got=self.kind, allowed="GPUs of one host, or all-reduce")]

    def rendezvous(self, job: Job) -> Rendezvous:
        """Return the reduction and broadcast of each bucket; the first one follows the scatter and the gather."""
        exchanges = [self.exchange(job, bucket.num_bytes) for bucket in job.buckets]
        if exchanges and job.num_ranks > 1:
            exchanges[0] = self._after_scatter_and_gather(exchanges[0], job.num_ranks)
        return Rendezvous(job, exchanges)

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Return a reduction to the first worker and a broadcast from it."""
        given = job.network.topology, job.gpus, num_bytes, job.transport.library
        reduce_and_broadcast = [schedule_collective(op, _ALGORITHM, *given)[1] for op in ("reduce", "broadcast")]
        schedule = Schedule.concatenate(reduce_and_broadcast)
        return Exchange(schedule, job.buffer_nodes(), "reduce and broadcast", push_step=schedule.num_steps)

    def _after_scatter_and_gather(self, first: Exchange, num_ranks: int) -> Exchange:
        """Return an exchange with messages before it: to each other worker, then from each, one after another."""
        others = range(1, num_ranks)
        messages = [(0, rank, self.scattered) for rank in others] + [(rank, 0, self.gathered) for rank in others]
        steps = [Step.of([src], [dst], num_bytes) for src, dst, num_bytes in messages if num_bytes]
        before = Schedule.from_steps(num_ranks, steps, first.schedule.granularity)
        if steps and first.schedule.relays is not None:
            src, dst = (
                np.concatenate(column) for column in zip(*((step.src, step.dst) for step in steps), strict=True)
            )
            before = replace(before, relays=Relays.of(src, dst))
        schedule = Schedule.concatenate([before, first.schedule])
        return Exchange(schedule, first.nodes, first.algorithm, push_step=schedule.num_steps)
