"""Small models in double precision, whose training can be followed by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


class Regression:
    """Least squares of a linear model: the loss of a sample is half the square of its error."""

    mixes_samples = False
    labels: np.ndarray | None = None

    def __init__(self, num_samples: int = 64, num_weights: int = 6):
        generator = torch.Generator().manual_seed(0)
        self.num_samples = num_samples
        self.inputs = torch.randn(num_samples, num_weights, generator=generator, dtype=torch.float64)
        self.targets = torch.randn(num_samples, generator=generator, dtype=torch.float64)
        self.initial = torch.ones(num_weights, dtype=torch.float64)

    def gradient(self, weights: Tensor, samples: np.ndarray) -> Tensor:
        chosen = torch.from_numpy(samples)
        inputs = self.inputs[chosen]
        return inputs.T @ (inputs @ weights - self.targets[chosen]) / len(chosen)

    def evaluate(self, weights: Tensor) -> tuple[float, float | None]:
        return float((self.inputs @ weights - self.targets).square().mean()) / 2, None

    def stage_starts(self, num_stages: int) -> list[int]:
        return [int(part[0]) for part in np.array_split(np.arange(len(self.initial)), num_stages)]


class Quadratic:
    """Many independent weights, each with the loss `curvature` / 2 x weight²; gradients have normal noise of 1 sigma.

    The loss is the mean over the weights, so it is close to the expected loss of one.
    """

    mixes_samples = True
    labels: np.ndarray | None = None
    num_samples = 1000

    def __init__(self, curvature: float, noise: float, num_weights: int = 1):
        self.curvature, self.noise = curvature, noise
        self.initial = torch.ones(num_weights, dtype=torch.float64)
        self._generator = torch.Generator().manual_seed(1)

    def gradient(self, weights: Tensor, samples: np.ndarray) -> Tensor:
        noise = torch.randn(weights.shape, generator=self._generator, dtype=torch.float64)
        return self.curvature * weights + self.noise * noise

    def evaluate(self, weights: Tensor) -> tuple[float, float | None]:
        return self.curvature / 2 * float(weights.square().mean()), None

    def stage_starts(self, num_stages: int) -> list[int]:
        raise NotImplementedError


class Played:
    """A model whose k-th gradient is what `gradient_of(k)` says; its loss is the length of its weights."""

    mixes_samples = True
    labels: np.ndarray | None = None
    num_samples = 1000

    def __init__(self, num_weights: int, gradient_of: Callable[[int], Tensor]):
        self.initial = torch.ones(num_weights, dtype=torch.float64)
        self._gradient_of, self._number = gradient_of, 0

    def gradient(self, weights: Tensor, samples: np.ndarray) -> Tensor:
        self._number += 1
        return self._gradient_of(self._number - 1).clone()

    def evaluate(self, weights: Tensor) -> tuple[float, float | None]:
        return float(weights.norm()), None

    def stage_starts(self, num_stages: int) -> list[int]:
        return list(range(num_stages))
