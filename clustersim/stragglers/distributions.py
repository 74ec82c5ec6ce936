"""Random slowness: distributions with mean 1, each given by its coefficient of variation."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.stragglers.straggler import Cv, Straggler


class Lognormal(Straggler):
    """exp(N(-sigma**2 / 2, sigma)): many small causes that multiply. cv = sqrt(exp(sigma**2) - 1)."""

    kind: Literal["lognormal"]
    cv: Cv | None = None
    sigma: float | None = Field(
        default=None, gt=0, le=3, allow_inf_nan=False, description="standard deviation of the logarithm"
    )

    @model_validator(mode="after")
    def _one_width(self) -> Self:
        if (self.cv is None) == (self.sigma is None):
            raise InputError("a lognormal needs one of 'cv' and 'sigma'", allowed="cv or sigma")
        return self

    @property
    def log_sigma(self) -> float:
        """Standard deviation of the logarithm, whichever of the two was given."""
        return self.sigma if self.sigma is not None else math.sqrt(math.log1p((self.cv or 0.0) ** 2))

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.lognormal(-(self.log_sigma**2) / 2, self.log_sigma, size)


class Uniform(Straggler):
    """Uniform on 1 - sqrt(3) cv to 1 + sqrt(3) cv."""

    kind: Literal["uniform"]
    cv: Annotated[
        float,
        Field(gt=0, lt=3**-0.5, description="standard deviation over mean; below 0.577, so that no time is negative"),
    ]

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        half_width = math.sqrt(3) * self.cv
        return rng.uniform(1 - half_width, 1 + half_width, size)


class Exponential(Straggler):
    """1 - cv + cv Exp(1): a fixed part and a memoryless one.

    The slowest of n is 1 - cv + cv H_n on average, where H_n = 1 + 1/2 + ... + 1/n.
    """

    kind: Literal["exponential"]
    cv: Annotated[float, Field(gt=0, le=1, description="standard deviation over mean; at 1 there is no fixed part")]

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return 1 - self.cv + self.cv * rng.exponential(1.0, size)


class Gamma(Straggler):
    """Gamma of shape 1 / cv**2 and scale cv**2: a sum of memoryless parts."""

    kind: Literal["gamma"]
    cv: Cv

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.gamma(self.cv**-2, self.cv**2, size)


class Pareto(Straggler):
    """Pareto of shape a = 1 + sqrt(1 + 1 / cv**2) above (a - 1) / a: a heavy tail of finite variance."""

    kind: Literal["pareto"]
    cv: Cv

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        shape = 1 + math.sqrt(1 + self.cv**-2)
        return (shape - 1) / shape * (1 + rng.pareto(shape, size))
