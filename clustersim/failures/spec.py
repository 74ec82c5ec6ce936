"""What a scenario says under `failures`."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.spec import Spec
from clustersim.units import Bandwidth, Duration

DEFAULT_LENGTH_S = 30 * 86_400.0
"""Useful time that is played where a scenario says neither how long nor how many epochs."""


class Lifetime(Spec):
    """How long one of a kind works until it fails: Weibull, of which the exponential is the one with shape 1.

    P(life > t) = exp(-(t / scale)**shape) with scale = mtbf / Gamma(1 + 1 / shape).
    """

    mtbf: Duration = Field(gt=0, description="mean time between failures of a single one, such as '50000 h'")
    shape: float = Field(
        default=1.0,
        ge=0.1,
        le=20,
        description="Weibull shape: 1 is exponential, below it early failures, above it wear",
    )

    def draw_s(self, rng: np.random.Generator) -> float:
        """Return one life in seconds."""
        scale_s = self.mtbf / math.gamma(1 + 1 / self.shape)
        return float(scale_s * rng.standard_exponential() ** (1 / self.shape))


class Checkpoint(Spec):
    """How often the state is saved, and where to: weights and optimizer state, which a restart reads back.

    Training stands still while a checkpoint is written, and reading it takes as long as writing it.
    """

    every: Literal["young", "daly", "best"] | Annotated[Duration, Field(gt=0)] = Field(
        default="daly",
        description="useful time between checkpoints, rounded to whole iterations: a duration, the optimum of `young` "
        "or `daly`, or the `best` of the simulation",
    )
    write: Duration | None = Field(default=None, description="time that writing one takes")
    rate: Annotated[Bandwidth, Field(gt=0)] | None = Field(
        default=None,
        description="instead of `write`: rate of the storage, reached from the memory of the writers' hosts",
    )
    host: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="instead of `write`: host of the cluster whose memory is written to, over the network"
    )
    writers: Literal["first", "all"] = Field(
        default="first",
        description="who writes: the `first` rank everything, or `all` ranks an equal share; where a copy of the model "
        "lies on several GPUs, the first or all of those that have the same part of it",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [key for key in ("write", "rate", "host") if getattr(self, key) is not None]
        if len(given) != 1:
            got = " and ".join(given) if given else "none of them"
            raise InputError(
                f"how long does a checkpoint take? Give one of write, rate, host (got {got})",
                got=got,
                allowed="one of write, rate, host",
            )
        return self


class Failures(Spec):
    """GPUs and hosts fail; the job starts again from its last checkpoint, with new ones in their place.

    Whichever rank fails, the whole job stops. A failure while it is being restarted begins the restart again.
    """

    gpu: Lifetime | None = Field(default=None, description="how long a GPU works until it fails")
    host: Lifetime | None = Field(default=None, description="how long a host works until it fails, with all its GPUs")
    checkpoint: Checkpoint = Field(description="how often the state is saved, and how long that takes")
    detection: Duration = Field(default=0.0, description="time from a failure until it is noticed")
    restart: Duration = Field(default=0.0, description="time from then until the checkpoint can be read")
    length: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None, description="useful time to play; all epochs where left out, or 30 days where there are none"
    )

    @model_validator(mode="after")
    def _something_fails(self) -> Self:
        if self.gpu is None and self.host is None:
            raise InputError(
                "what fails? Give gpu or host, such as {mtbf: 50000 h}", got="neither", allowed="gpu, host"
            )
        return self

    def lifetimes(self, num_gpus: int, num_hosts: int) -> list[tuple[str, Lifetime, int]]:
        """Return what can fail in a job: its name, its lifetime, and how many of it there are."""
        kinds = (("gpu", self.gpu, num_gpus), ("host", self.host, num_hosts))
        return [(name, lifetime, number) for name, lifetime, number in kinds if lifetime is not None]
