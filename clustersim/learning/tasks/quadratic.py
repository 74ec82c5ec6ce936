"""A quadratic function with noisy gradients, whose training has a closed form."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.learning.tasks.task import LearningTask, TaskData, Trainee
from clustersim.spec import Count

_MOST_DIMENSIONS = 2048
Eigenvalue = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]


class Quadratic(LearningTask):
    """The loss w H w / 2 with noisy gradients, whose expected loss has a closed form; loss only.

    H is diagonal, and every weight starts at 1 or -1. The gradient of sample i is H w + n_i. Over all samples the n_i
    have mean 0 and covariance `noise`^2 times the identity exactly, so a gradient of b samples that are drawn at random
    has the mean H w and the covariance `noise`^2 / b, times (N - b) / (N - 1) for b different ones of N samples. The
    noise of successive gradients is correlated by -1 / (N - 1), since a worker draws each sample once before it draws
    one again: with few samples the loss falls somewhat below the closed form of independent noise.
    """

    kind: Literal["quadratic"] = "quadratic"
    dimensions: Count = Field(default=100, le=_MOST_DIMENSIONS, description="weights")
    condition: Annotated[float, Field(ge=1, le=1e12)] = Field(
        default=100.0,
        description="largest over smallest eigenvalue of H; these lie evenly on a logarithmic scale below 1",
    )
    eigenvalues: list[Eigenvalue] | None = Field(
        default=None,
        min_length=1,
        max_length=_MOST_DIMENSIONS,
        description="the eigenvalues of H, in place of `dimensions` and `condition`",
    )
    noise: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=1.0, description="standard deviation of each component of the gradient of one sample"
    )
    samples: Count = Field(default=16_384, description="samples; at least two for each weight")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = [key for key in ("dimensions", "condition") if key in self.model_fields_set]
        if self.eigenvalues is not None and given:
            raise InputError(
                f"the eigenvalues say the dimensions and the condition number; leave out {' and '.join(given)}",
                got=" and ".join(["eigenvalues", *given]),
                allowed="eigenvalues, or dimensions and condition",
                key=given[0],
            )
        least, most = 2 * self.num_weights, (1 << 28) // self.num_weights
        if not least <= self.samples <= most or self.samples % 2:
            allowed = f"an even number from {least:,} to {most:,}"
            raise InputError(
                f"expected {allowed}, with {self.num_weights:,} weights (got {self.samples:,})",
                got=f"{self.samples:,}",
                allowed=allowed,
                key="samples",
            )
        return self

    @property
    def num_weights(self) -> int:
        """How many weights there are."""
        return self.dimensions if self.eigenvalues is None else len(self.eigenvalues)

    def curvature(self) -> np.ndarray:
        """Return the diagonal of H [num_weights].

        >>> Quadratic(dimensions=3, condition=100).curvature().round(6).tolist()
        [0.01, 0.1, 1.0]
        """
        if self.eigenvalues is not None:
            return np.array(self.eigenvalues)
        return np.geomspace(1 / self.condition, 1.0, self.num_weights)

    def title(self) -> str:
        values = self.curvature()
        return (
            f"a noisy quadratic function of {self.num_weights:,} weights with condition number "
            f"{values.max() / values.min():,.4g}"
        )

    def data(self) -> TaskData:
        return TaskData(self.samples, has_labels=False, has_accuracy=False)

    def trainee(self, seed: int) -> Trainee:
        from clustersim.learning.training.quadratic import QuadraticTrainee

        return QuadraticTrainee(self, seed)
