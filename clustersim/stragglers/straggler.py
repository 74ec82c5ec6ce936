"""Base classes of stragglers: which ranks they affect, how often they are drawn, and their factors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from clustersim.spec import Spec

Number = Annotated[int, Field(ge=0)]
Cv = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False, description="standard deviation over mean")]


class OfHosts(Spec):
    """All GPUs of some hosts."""

    hosts: list[Number] = Field(
        min_length=1, description="hosts of the job, numbered from 0 in the order of their first rank"
    )


def job_hosts(hosts: np.ndarray) -> np.ndarray:
    """Return [num_ranks] the host of each rank of a job, numbered from 0 in the order of their first rank.

    >>> job_hosts(np.array([7, 7, 3, 9, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    _, first, inverse = np.unique(hosts, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    numbered: np.ndarray = order[inverse]
    return numbered


class Straggler(Spec):
    """One straggler. It has its own random streams, named after its `kind`."""

    kind: str

    @property
    def is_steady(self) -> bool:
        """Whether it is the same in every iteration of a run."""
        return False

    @property
    def gives_every_gpu(self) -> bool:
        """Whether it draws the pace of every GPU of the job, which then replaces the variability of the GPU's sheet."""
        return False


class ComputeStraggler(Straggler):
    """A straggler that slows the compute of GPUs."""

    of: Literal["all"] | Annotated[list[Number], Field(min_length=1)] | OfHosts = Field(
        default="all",
        description="which GPUs are slow: 'all', a list of ranks (a GPU's number in the job), or {hosts: [...]}",
    )

    def affects(self, hosts: np.ndarray) -> np.ndarray:
        """Return [num_ranks] whether it affects each rank; `hosts` [num_ranks] is the host of each rank.

        Numbers beyond the job are ignored here: a scenario that has them is refused when it is read.

        >>> from clustersim.stragglers import Constant
        >>> Constant(kind="constant", factor=2, of=OfHosts(hosts=[1])).affects(np.array([7, 7, 3, 3])).tolist()
        [False, False, True, True]
        """
        num_ranks = len(hosts)
        if self.of == "all":
            return np.ones(num_ranks, dtype=bool)
        if isinstance(self.of, OfHosts):
            return np.isin(job_hosts(hosts), self.of.hosts)
        return np.isin(np.arange(num_ranks), self.of)


class FactorStraggler(ComputeStraggler):
    """A straggler with factors: compute of the ranks that it affects takes a factor times as long.

    A factor of 1 changes nothing. The distributions have mean 1: they change the spread of compute times and not
    their mean.
    """

    per: Literal["iteration", "layer", "gpu"] = Field(
        default="iteration",
        description="how often it is drawn: every iteration, every layer of an iteration, or once per GPU and run",
    )

    @property
    def is_steady(self) -> bool:
        return self.per == "gpu"

    @property
    def gives_every_gpu(self) -> bool:
        return self.per == "gpu" and self.of == "all"

    @abstractmethod
    def draw(
        self, own: np.random.Generator, shared: Callable[[], np.random.Generator], size: int, per_iteration: int = 1
    ) -> np.ndarray:
        """Return [size] factors of one rank, `per_iteration` of them in each iteration.

        `own` is the rank's random stream, `shared` returns that of its host. A larger size has the same first factors.
        """
