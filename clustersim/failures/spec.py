"""The models of `failures` in a scenario."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.spec import Spec
from clustersim.units import Bandwidth, Duration

DEFAULT_LENGTH_S = 30 * 86_400.0
"""Useful time to simulate if a scenario gives neither `length` nor the length of the training."""


class Lifetime(Spec):
    """The lifetime of a component: Weibull, which is exponential for shape 1.

    P(life > t) = exp(-(t / scale)**shape) with scale = mtbf / Gamma(1 + 1 / shape).
    """

    mtbf: Duration = Field(gt=0, description="mean time between failures of one component, such as '50000 h'")
    shape: float = Field(
        default=1.0,
        ge=0.1,
        le=20,
        description="Weibull shape: 1 is exponential, below 1 early failures, above 1 wear",
    )

    def draw_s(self, rng: np.random.Generator) -> float:
        """Return one lifetime in seconds."""
        scale_s = self.mtbf / math.gamma(1 + 1 / self.shape)
        return float(scale_s * rng.standard_exponential() ** (1 / self.shape))


class Checkpoint(Spec):
    """How often and where the state is saved: weights and optimizer state, which a restart reads.

    Training stops while a checkpoint is written, and reading takes as long as writing.
    """

    every: Literal["young", "daly", "best"] | Annotated[Duration, Field(gt=0)] = Field(
        default="daly",
        description="useful time between checkpoints, rounded to whole iterations: a duration, the optimum of `young` "
        "or `daly`, or the `best` of the simulation",
    )
    write: Duration | None = Field(default=None, description="time to write a checkpoint")
    rate: Annotated[Bandwidth, Field(gt=0)] | None = Field(
        default=None,
        description="instead of `write`: rate of the storage, written to from the memory of the writers' hosts",
    )
    host: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="instead of `write`: host of the cluster whose memory is written to, over the network"
    )
    writers: Literal["first", "all"] = Field(
        default="first",
        description="which ranks write: the `first` one everything, or `all` an equal share each; if a copy of the "
        "model is split over several GPUs, the first or all of the ranks with the same part of it",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [key for key in ("write", "rate", "host") if getattr(self, key) is not None]
        if len(given) != 1:
            got = " and ".join(given) if given else "none of them"
            raise InputError(
                f"give one of write, rate and host, for the time of a checkpoint (got {got})",
                got=got,
                allowed="one of write, rate, host",
            )
        return self


class Failures(Spec):
    """Failures of GPUs and hosts; the job restarts from its last checkpoint with replacements.

    A failure of any rank stops the whole job. A failure during a restart starts the restart again.
    """

    gpu: Lifetime | None = Field(default=None, description="lifetime of a GPU")
    host: Lifetime | None = Field(default=None, description="lifetime of a host, whose failure stops all its GPUs")
    checkpoint: Checkpoint = Field(description="how often the state is saved, and how long that takes")
    detection: Duration = Field(default=0.0, description="time from a failure until it is detected")
    restart: Duration = Field(default=0.0, description="time from the detection until the checkpoint can be read")
    length: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None, description="useful time to simulate; if left out, all epochs or tokens, or 30 days without them"
    )

    @model_validator(mode="after")
    def _something_fails(self) -> Self:
        if self.gpu is None and self.host is None:
            raise InputError(
                "give gpu or host, such as gpu: {mtbf: 50000 h} (got neither)", got="neither", allowed="gpu, host"
            )
        return self

    def lifetimes(self, num_gpus: int, num_hosts: int) -> list[tuple[str, Lifetime, int]]:
        """Return the kinds of components in a job that can fail: name, lifetime, number."""
        kinds = (("gpu", self.gpu, num_gpus), ("host", self.host, num_hosts))
        return [(name, lifetime, number) for name, lifetime, number in kinds if lifetime is not None]
