"""Workers that add among themselves, by a collective algorithm and without servers."""

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
    """Workers add what they have among themselves.

    One bucket follows the other, as on the one communication stream of NCCL or DistributedDataParallel.
    """

    algorithm: str = Field(
        default="auto",
        description="an all-reduce algorithm, `nvls` to add in the switch of an NVSwitch host, "
        "`horovod-hierarchical`: by NCCL inside hosts and by MPI between them, from host memory, `auto`: what the "
        "transport's own library would choose (NCCL as of 2.30, MPICH), `nccl-1`: NCCL's one ring until 2017, or "
        "`nccl-1-processes`, with a process for each GPU, `nccl-2.4`: what NCCL of 2019 would, or `open-mpi-4.0` or "
        "`open-mpi-4.1`: what Open MPI would until 2020, and from then on",
    )
    dims: tuple[int, ...] | None = Field(
        default=None, description="for `torus-ring`: ranks along each dimension; by default those of the torus"
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
        """Return that the algorithm has no all-gather of its name, by which gradients that cannot be added go."""
        if self.algorithm in CHOICES or self.algorithm in ALL_GATHER:
            return []
        known = ", ".join(["auto", *(name for name in ALL_REDUCE if name in ALL_GATHER)])
        message = (
            f"{self.algorithm} adds gradients on their way, and {compression} ones cannot be added but must be "
            f"gathered; write one of: {known}"
        )
        return [Mistake(message, key="algorithm", got=self.algorithm, allowed=known)]

    def sharding_mistakes(self, sharding: str) -> list[Mistake]:
        """Return that the algorithm has no reduce-scatter and all-gather of its name, which copies then exchange by."""
        both = [name for name in ALL_GATHER if name in REDUCE_SCATTER and "dims" not in options_of(ALL_GATHER[name])]
        known = ["auto", *both]
        if self.algorithm in known:
            return []
        allowed = ", ".join(known)
        message = (
            f"with sharding {sharding} gradients are added by a reduce-scatter and weights gathered, which "
            f"{self.algorithm} does not do; write one of: {allowed}"
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
        """Return what the user wrote here and what changes nothing."""
        if self.dims is not None and self.algorithm != "torus-ring":
            return (f"strategy.dims means something to torus-ring only (the algorithm is {self.algorithm})",)
        return ()

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Schedule the chosen algorithm over the workers' buffers; it gathers what cannot be added on the way."""
        if not job.wire.adds:
            return self._gathering(job, num_bytes)
        name, schedule = schedule_collective(
            "all-reduce", self.algorithm, job.network.topology, job.gpus, num_bytes, job.transport.library, self.dims
        )
        topology, library = job.network.topology, job.transport.library
        nodes = [*job.buffer_nodes(), *extra_ranks(schedule, topology, job.gpus)]
        delay_s = pauses_s(schedule, topology, job.gpus, library, "all-reduce", self.algorithm)
        return Exchange(schedule, nodes, name, schedule.num_steps, delay_s, self._held(job, name))

    def _gathering(self, job: Job, num_bytes: float) -> Exchange:
        """Schedule an all-gather, after which every worker has what each has sent and can add that itself."""
        name, schedule = schedule_collective(
            "all-gather",
            self.algorithm,
            job.network.topology,
            job.gpus,
            num_bytes * job.num_ranks,
            job.transport.library,
            self.dims,
        )
        held = self._held(job, name)
        return Exchange(schedule, job.buffer_nodes(), f"{name} all-gather", push_step=schedule.num_steps, sm_share=held)

    def _held(self, job: Job, algorithm: str) -> np.ndarray | None:
        """Return the share of each worker's multiprocessors that an exchange holds, where one may compute beside it."""
        if not self.overlaps_backward:
            return None
        return sm_share(job.network.topology, job.gpus, job.transport, algorithm, self.algorithm)
