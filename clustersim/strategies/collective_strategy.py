"""Strategies whose workers all-reduce, without servers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field, field_validator

from clustersim.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, algorithms_of, options_of
from clustersim.communicator.algorithm import CHOICES, check_algorithm, schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.pauses import pauses_s
from clustersim.communicator.sm_share import sm_share
from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Exchange
from clustersim.strategies.synchronous import Synchronous
from clustersim.topology import Topology


class CollectiveStrategy(Synchronous):
    """Synchronous workers that exchange each bucket by an all-reduce, whose algorithm the scenario chooses.

    A new strategy of this kind usually overrides `iterate` only: it decides when a worker sends its buckets, when it
    waits for them, and when it updates. If iterations differ, such as one all-reduce in k, it also overrides
    `round_length`, as `Local` does. Buckets go one after another, as on the one communication stream of NCCL or
    DistributedDataParallel.
    """

    algorithm: str = Field(
        default="auto",
        description="an all-reduce algorithm by name, `nvls` to add in the switch of an NVSwitch host, "
        "`horovod-hierarchical` (NCCL inside hosts and MPI between them, from host memory), or a library's choice: "
        "`auto` (the library of the transport: NCCL as of 2.30, MPICH), `nccl-1` (NCCL's single ring until 2017), "
        "`nccl-1-processes` (the same with a process for each GPU), `nccl-2.4` (NCCL of 2019), `open-mpi-4.0` (Open "
        "MPI until 2020) or `open-mpi-4.1` (Open MPI since then)",
    )
    dims: tuple[int, ...] | None = Field(
        default=None, description="for `torus-ring`: ranks along each dimension; by default the dimensions of the torus"
    )

    @field_validator("algorithm")
    @classmethod
    def _algorithm_is_known(cls, value: str) -> str:
        known = [*algorithms_of("all-reduce"), *CHOICES]
        if value not in known:
            raise unknown_name(ALL_REDUCE.kind, value, known)
        return value

    @property
    def sends_alone(self) -> bool:
        return False

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        """Return a mistake if the algorithm has no all-gather, which gradients that cannot be added need."""
        if self.algorithm in CHOICES or self.algorithm in ALL_GATHER:
            return []
        known = ", ".join(["auto", *(name for name in ALL_REDUCE if name in ALL_GATHER)])
        message = (
            f"{self.algorithm} adds gradients in transit, but {compression} gradients cannot be added and must be "
            f"gathered; write one of: {known}"
        )
        return [Mistake(message, key="algorithm", got=self.algorithm, allowed=known)]

    def sharding_mistakes(self, sharding: str) -> list[Mistake]:
        """Return a mistake if the algorithm has no reduce-scatter and all-gather, which sharded replicas use."""
        both = [name for name in ALL_GATHER if name in REDUCE_SCATTER and "dims" not in options_of(ALL_GATHER[name])]
        known = ["auto", *both]
        if self.algorithm in known:
            return []
        allowed = ", ".join(known)
        message = (
            f"sharding {sharding} adds gradients by a reduce-scatter and gathers weights, which {self.algorithm} does "
            f"not do; write one of: {allowed}"
        )
        return [Mistake(message, key="algorithm", got=self.algorithm, allowed=allowed)]

    def placed_mistakes(self, topology: Topology, gpus: np.ndarray, transport: str) -> list[Mistake]:
        if len(gpus) < 2:
            return []
        try:
            check_algorithm("all-reduce", self.algorithm, topology, gpus, transport, self.dims)
        except InputError as error:
            return [replace(each, key=each.key or "algorithm") for each in error.mistakes]
        return []

    def warnings(self) -> tuple[str, ...]:
        """Return a message if `dims` is set for an algorithm that does not use it."""
        if self.dims is not None and self.algorithm != "torus-ring":
            return (f"strategy.dims changes nothing: only torus-ring uses it (the algorithm is {self.algorithm})",)
        return ()

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Return the all-reduce of a bucket over all workers, or an all-gather if gradients cannot be added."""
        if not job.wire.adds:
            return self._all_gather(job, num_bytes)
        name, schedule = schedule_collective(
            "all-reduce", self.algorithm, job.network.topology, job.gpus, num_bytes, job.transport.library, self.dims
        )
        topology, library = job.network.topology, job.transport.library
        nodes = [*job.buffer_nodes(), *extra_ranks(schedule, topology, job.gpus)]
        delay_s = pauses_s(schedule, topology, job.gpus, library, "all-reduce", self.algorithm)
        return Exchange(schedule, nodes, name, schedule.num_steps, delay_s, self._sm_share(job, name))

    def _all_gather(self, job: Job, num_bytes: float) -> Exchange:
        """Return an all-gather of a bucket, after which every worker has all gradients and adds them itself."""
        name, schedule = schedule_collective(
            "all-gather",
            self.algorithm,
            job.network.topology,
            job.gpus,
            num_bytes * job.num_ranks,
            job.transport.library,
            self.dims,
        )
        held = self._sm_share(job, name)
        return Exchange(schedule, job.buffer_nodes(), f"{name} all-gather", push_step=schedule.num_steps, sm_share=held)

    def _sm_share(self, job: Job, algorithm: str) -> np.ndarray | None:
        """Return the share of each GPU's SMs that an exchange occupies [num_ranks]; None if nothing overlaps it."""
        if not self.overlaps_backward:
            return None
        return sm_share(job.network.topology, job.gpus, job.transport, algorithm, self.algorithm)
