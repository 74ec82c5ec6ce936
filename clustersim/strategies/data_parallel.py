"""PyTorch's DataParallel: one process whose first GPU hands out weights and takes all gradients in."""

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
    """The first GPU adds all gradients when all of backward is done, updates, and hands the weights out.

    Both go by NCCL's chains, buffer after buffer, and nothing is beside them. All GPUs are taken to update at once,
    which takes as long as the first alone, whom the others wait for. What is scattered and gathered goes from GPU to
    GPU, one after another, in front of the gradients: it was on its way when nothing else was, too.
    """

    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset(
        {Shortcut.IDENTICAL_ITERATIONS, Shortcut.IDENTICAL_REPLICATES, Shortcut.VECTORIZED_WORKERS}
    )

    kind: Literal["data-parallel"] = "data-parallel"
    overlap: Literal[False] = Field(
        default=False, description="gradients are added when all of backward is done, which leaves nothing to be beside"
    )
    buckets: str = Field(
        default="auto",
        description="which gradients travel together: `auto`, as many as fit into a buffer of 10 MiB, as PyTorch has "
        "it, or what `buckets` of `all-reduce` may be",
    )
    scattered: Size = Field(
        default=0.0,
        ge=0,
        description="inputs of an iteration that lie on the first GPU and that each other GPU is sent, such as '77 MB'",
    )
    gathered: Size = Field(
        default=0.0, ge=0, description="outputs of an iteration that each other GPU sends the first, such as '823 MB'"
    )

    @property
    def sends_alone(self) -> bool:
        return False

    def bucket_caps(self, gradient_bytes: float, num_copies: int, sharding: str | None) -> Caps:
        return BUFFER if self.buckets == "auto" else super().bucket_caps(gradient_bytes, num_copies, sharding)

    def copies_made(self, is_whole: bool) -> Copies:
        return COPIES["data-parallel"]

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        message = f"data-parallel adds gradients on their way, and {compression} ones cannot be added; leave it out"
        return [Mistake(message, key="kind", got=self.kind, allowed="with compression fp16 or none")]

    def sharding_mistakes(self, sharding: str) -> list[Mistake]:
        message = f"data-parallel has whole copies, and sharding {sharding} shares them out; take all-reduce"
        return [Mistake(message, key="kind", got=self.kind, allowed="all-reduce")]

    def placed_mistakes(self, topology: Topology, gpus: np.ndarray, transport: str) -> list[Mistake]:
        """Return that a process has GPUs of one host alone."""
        num_hosts = len(np.unique(topology.gpu_hosts[gpus]))
        if num_hosts < 2:
            return []
        message = (
            f"DataParallel is one process, and the {len(gpus)} GPUs are on {num_hosts} hosts; take GPUs of one host, "
            "or all-reduce"
        )
        return [Mistake(message, key="kind", got=self.kind, allowed="GPUs of one host, or all-reduce")]

    def rendezvous(self, job: Job) -> Rendezvous:
        """Return where buckets are added and handed out, the first behind what is scattered and gathered."""
        exchanges = [self.exchange(job, bucket.num_bytes) for bucket in job.buckets]
        if exchanges and job.num_ranks > 1:
            exchanges[0] = self._behind_the_rest(exchanges[0], job.num_ranks)
        return Rendezvous(job, exchanges)

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Schedule a reduction to the first worker and a broadcast from it."""
        known = job.network.topology, job.gpus, num_bytes, job.transport.library
        both = [schedule_collective(op, _ALGORITHM, *known)[1] for op in ("reduce", "broadcast")]
        schedule = Schedule.concatenate(both)
        return Exchange(schedule, job.buffer_nodes(), "reduce and broadcast", push_step=schedule.num_steps)

    def _behind_the_rest(self, first: Exchange, num_ranks: int) -> Exchange:
        """Return an exchange that follows messages to each other worker, and back from each, one after another."""
        others = range(1, num_ranks)
        ways = [(0, rank, self.scattered) for rank in others] + [(rank, 0, self.gathered) for rank in others]
        steps = [Step.of([src], [dst], num_bytes) for src, dst, num_bytes in ways if num_bytes]
        before = Schedule.from_steps(num_ranks, steps, first.schedule.granularity)
        if steps and first.schedule.relays is not None:
            src, dst = (
                np.concatenate(column) for column in zip(*((step.src, step.dst) for step in steps), strict=True)
            )
            before = replace(before, relays=Relays(src, dst, np.ones(len(steps))))
        schedule = Schedule.concatenate([before, first.schedule])
        return Exchange(schedule, first.nodes, first.algorithm, push_step=schedule.num_steps)
