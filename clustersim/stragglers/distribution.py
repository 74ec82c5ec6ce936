"""Random factors of mean 1: correlated standard normal numbers, transformed to a distribution."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from itertools import accumulate
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.stragglers.straggler import FactorStraggler


class Distribution(FactorStraggler):
    """Factors f(z) of standard normal z, where f is the distribution's quantile function of Phi(z).

    Correlations are those of z (a Gaussian copula; Nelsen, An Introduction to Copulas, 2006), so every
    factor has exactly the given distribution for any correlation. In time, z is an AR(1) process,
    z_t = rho z_(t-1) + sqrt(1 - rho**2) e_t. Within a host, e is sqrt(c) times a number that its GPUs share
    plus sqrt(1 - c) times a number of each GPU. One seed gives the same z for every distribution and width.
    """

    rho: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="correlation with the previous draw: of the previous iteration, or of the previous layer if drawn "
        "per layer",
    )
    correlation_iterations: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="iterations after which the correlation is 1 / e, instead of `rho`",
    )
    host_correlation: float = Field(
        default=0.0, ge=0, le=1, description="correlation between GPUs of one host; at 1 they have equal factors"
    )

    @model_validator(mode="after")
    def _correlated_in_one_way(self) -> Self:
        in_time = self.rho > 0 or self.correlation_iterations is not None
        if self.rho > 0 and self.correlation_iterations is not None:
            raise InputError(
                "the correlation in time is given twice; keep one of 'rho' and 'correlation_iterations'",
                got="both",
                allowed="rho or correlation_iterations",
            )
        if in_time and self.per == "gpu":
            raise InputError(
                "a factor drawn once per GPU has no correlation in time (got per: gpu); leave rho and "
                "correlation_iterations out, or give per: iteration",
                got="per gpu",
                allowed="per iteration or layer",
            )
        return self

    @abstractmethod
    def factors(self, z: np.ndarray) -> np.ndarray:
        """Return the factors for standard normal `z`; they increase with z."""

    def draw(
        self, own: np.random.Generator, shared: Callable[[], np.random.Generator], size: int, per_iteration: int = 1
    ) -> np.ndarray:
        z = own.standard_normal(size)
        if self.host_correlation:
            z *= math.sqrt(1 - self.host_correlation)
            z += math.sqrt(self.host_correlation) * shared().standard_normal(size)
        return self.factors(autoregressive(z, self.step_correlation(per_iteration)))

    def step_correlation(self, per_iteration: int) -> float:
        """Return the correlation of consecutive draws if an iteration has `per_iteration` of them."""
        if self.correlation_iterations is None:
            return self.rho
        return math.exp(-1 / (self.correlation_iterations * per_iteration))


def autoregressive(noise: np.ndarray, rho: float) -> np.ndarray:
    """Return the stationary AR(1) process [size] of standard normal `noise` [size]; each term is standard normal.

    z_0 = e_0, z_t = rho z_(t-1) + sqrt(1 - rho**2) e_t.
    """
    if not rho or not len(noise):
        return noise
    driven = math.sqrt(1 - rho**2) * noise
    driven[0] = noise[0]
    return np.fromiter(accumulate(driven.tolist(), lambda before, new: rho * before + new), float, len(driven))
