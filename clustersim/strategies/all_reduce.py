"""Synchronous all-reduce: every worker ends up with the sum of all gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, Literal

from pydantic import Field, field_validator

from clustersim.collectives import ALL_REDUCE, choose
from clustersim.errors import InputError, unknown_name
from clustersim.strategies.job import Job
from clustersim.strategies.strategy import Exchange, Strategy


class AllReduce(Strategy):
    """Workers add their gradients among themselves, by a collective algorithm.

    One bucket follows the other, as on the one communication stream of NCCL or DistributedDataParallel.
    """

    kind: Literal["all-reduce"] = "all-reduce"
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
        groups = group_sizes(job.hosts.tolist())
        name = self.algorithm
        if name == "auto":
            name = choose("all-reduce", job.transport.name, job.num_ranks, num_bytes, max(groups))
        options: dict[str, Any] = {}
        if name == "hierarchical":
            options["ranks_per_host"] = groups
        if name == "torus-ring":
            options["dims"] = self._dims(job)
        schedule = ALL_REDUCE[name](job.num_ranks, num_bytes, **options)
        return Exchange(schedule, job.buffer_nodes(), name, follow=schedule.num_steps)

    def _dims(self, job: Job) -> tuple[int, ...]:
        dims = self.dims or job.network.topology.torus_dims
        if dims is None or prod(dims) != job.num_ranks:
            shown = "none" if dims is None else " x ".join(str(extent) for extent in dims)
            raise InputError(
                f"torus-ring needs the ranks along each dimension, whose product is {job.num_ranks} (got {shown}); "
                "give them as strategy.dims",
                got=shown,
            )
        return dims


def group_sizes(hosts: Sequence[int]) -> list[int]:
    """Return how many ranks each host holds, in rank order; a host that comes again later is a new group.

    A hierarchical collective numbers its groups by rank, so only neighbours in rank order form one.
    """
    if len(Counter(hosts)) == len(hosts):
        return [1] * len(hosts)
    groups = [1]
    for before, host in pairwise(hosts):
        if host == before:
            groups[-1] += 1
        else:
            groups.append(1)
    return groups
