"""The distributions, each with mean 1 and a coefficient of variation."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.stragglers.distribution import Distribution
from clustersim.stragglers.straggler import Cv


class Lognormal(Distribution):
    """exp(sigma z - sigma**2 / 2): a product of many small causes. cv = sqrt(exp(sigma**2) - 1)."""

    kind: Literal["lognormal"]
    cv: Cv | None = None
    sigma: float | None = Field(
        default=None, gt=0, le=3, allow_inf_nan=False, description="standard deviation of the logarithm"
    )

    @model_validator(mode="after")
    def _one_width(self) -> Self:
        if (self.cv is None) == (self.sigma is None):
            got = "neither" if self.cv is None else "both"
            raise InputError(f"a lognormal needs one of 'cv' and 'sigma' (got {got})", got=got, allowed="cv or sigma")
        return self

    @property
    def log_sigma(self) -> float:
        """Standard deviation of the logarithm, from `sigma` or `cv`."""
        return self.sigma if self.sigma is not None else math.sqrt(math.log1p((self.cv or 0.0) ** 2))

    def factors(self, z: np.ndarray) -> np.ndarray:
        drawn: np.ndarray = np.exp(self.log_sigma * z - self.log_sigma**2 / 2)
        return drawn


class Uniform(Distribution):
    """Uniform on 1 - sqrt(3) cv to 1 + sqrt(3) cv."""

    kind: Literal["uniform"]
    cv: Annotated[
        float,
        Field(gt=0, lt=3**-0.5, description="standard deviation over mean; below 0.577, so that no time is negative"),
    ]

    def factors(self, z: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        return np.asarray(1 + math.sqrt(3) * self.cv * (2 * ndtr(z) - 1))


class Exponential(Distribution):
    """1 - cv + cv Exp(1): a fixed part and a memoryless part.

    The slowest of n is 1 - cv + cv H_n on average, where H_n = 1 + 1/2 + ... + 1/n.
    """

    kind: Literal["exponential"]
    cv: Annotated[float, Field(gt=0, le=1, description="standard deviation over mean; at 1 there is no fixed part")]

    def factors(self, z: np.ndarray) -> np.ndarray:
        return 1 - self.cv + self.cv * _exponential(z)


class ExponentialTail(Distribution):
    """(1 + B m Exp(1)) / (1 + p m), B = 1 in a share p of the draws: mostly undisturbed, sometimes slow.

    Scaled to mean 1; m = cv / (sqrt(p (2 - p)) - p cv). With p = 1 it is the exponential.
    """

    kind: Literal["exponential-tail"]
    cv: Annotated[float, Field(gt=0, le=100, description="standard deviation over mean; below sqrt(2 / share - 1)")]
    share: float = Field(default=1.0, gt=0, le=1, description="share of the draws that have the exponential part")

    @model_validator(mode="after")
    def _no_wider_than_possible(self) -> Self:
        widest = math.sqrt(2 / self.share - 1)
        if self.cv >= widest:
            raise InputError(
                f"with an exponential part in a share of {self.share:g} of the draws, cv must be below {widest:.4g} "
                f"(got {self.cv:g}); lower cv or share",
                got=f"{self.cv:g}",
                allowed=f"below {widest:.4g}",
            )
        return self

    def factors(self, z: np.ndarray) -> np.ndarray:
        spread = math.sqrt(self.share * (2 - self.share))
        tail = self.cv / (spread - self.share * self.cv)
        late = np.maximum(0.0, _exponential(z) + math.log(self.share))
        return (1 + tail * late) / (1 + self.share * tail)


class Gamma(Distribution):
    """Gamma of shape 1 / cv**2 and scale cv**2: a sum of memoryless parts."""

    kind: Literal["gamma"]
    cv: Cv

    def factors(self, z: np.ndarray) -> np.ndarray:
        """Return the quantiles at Phi(z) of a gamma of mean 1, one for each z."""
        from scipy.special import gammainccinv, gammaincinv, ndtr

        shape = self.cv**-2
        low = z < 0  # each tail from its own end: 1 - Phi(z) would lose digits
        drawn = np.empty(len(z))
        drawn[low] = gammaincinv(shape, ndtr(z[low]))
        drawn[~low] = gammainccinv(shape, ndtr(-z[~low]))
        return drawn / shape


class Pareto(Distribution):
    """Pareto of shape a = 1 + sqrt(1 + 1 / cv**2) above (a - 1) / a: a heavy tail of finite variance."""

    kind: Literal["pareto"]
    cv: Cv

    def factors(self, z: np.ndarray) -> np.ndarray:
        shape = 1 + math.sqrt(1 + self.cv**-2)
        return np.asarray((shape - 1) / shape * np.exp(_exponential(z) / shape))


def _exponential(z: np.ndarray) -> np.ndarray:
    """Return the exponential number of mean 1 for each standard normal: -log(1 - Phi(z))."""
    from scipy.special import log_ndtr

    return np.asarray(-log_ndtr(-z))
