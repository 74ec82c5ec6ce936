"""Workers that add among themselves, by a collective algorithm and without servers."""

from __future__ import annotations

from pydantic import Field, field_validator

from clustersim.collectives import ALL_REDUCE
from clustersim.errors import unknown_name
from clustersim.strategies.algorithm import schedule_collective
from clustersim.strategies.desk import Exchange
from clustersim.strategies.job import Job
from clustersim.strategies.synchronous import Synchronous


class AmongThemselves(Synchronous):
    """Workers add what they have among themselves.

    One bucket follows the other, as on the one communication stream of NCCL or DistributedDataParallel.
    """

    algorithm: str = Field(
        default="auto", description="an all-reduce algorithm, or `auto`: what the transport's own library would choose"
    )
    dims: tuple[int, ...] | None = Field(
        default=None, description="for `torus-ring`: ranks along each dimension; by default those of the torus"
    )

    @field_validator("algorithm")
    @classmethod
    def _algorithm_is_known(cls, value: str) -> str:
        if value != "auto" and value not in ALL_REDUCE:
            raise unknown_name(ALL_REDUCE.kind, value, [*ALL_REDUCE, "auto"])
        return value

    def warnings(self) -> tuple[str, ...]:
        """Return what the user wrote here and what changes nothing."""
        if self.dims is not None and self.algorithm != "torus-ring":
            return (f"strategy.dims means something to torus-ring only (the algorithm is {self.algorithm})",)
        return ()

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Schedule the chosen algorithm over the workers' buffers."""
        name, schedule = schedule_collective(
            "all-reduce", self.algorithm, job.network.topology, job.gpus, num_bytes, job.transport.name, self.dims
        )
        return Exchange(schedule, job.buffer_nodes(), name, follow=schedule.num_steps)
