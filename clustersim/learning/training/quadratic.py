"""The function and the noise of the task `quadratic`, without a network."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from clustersim.errors import InputError
from clustersim.learning.tasks.quadratic import Quadratic
from clustersim.seeding import stream


class QuadraticTrainee:
    """The loss w H w / 2 of weights w, in double precision, with the noise of each sample in its gradient."""

    labels: np.ndarray | None = None
    mixes_samples = False

    def __init__(self, task: Quadratic, seed: int):
        self._curvature = torch.from_numpy(task.curvature())
        self._noise = torch.from_numpy(sample_noise(task.samples, task.num_weights))
        self._scale = task.noise
        self.num_samples = task.samples
        signs = stream(seed, "learning", "quadratic").choice([-1.0, 1.0], task.num_weights)
        self.initial = torch.from_numpy(signs)

    def gradient(self, weights: Tensor, samples: np.ndarray) -> Tensor:
        gradient = self._curvature * weights
        if self._scale > 0:
            gradient.add_(self._noise[torch.from_numpy(samples)].mean(0), alpha=self._scale)
        return gradient

    def evaluate(self, weights: Tensor) -> tuple[float, float | None]:
        return float(0.5 * (self._curvature * weights * weights).sum()), None

    def stage_starts(self, num_stages: int) -> list[int]:
        num_weights = len(self.initial)
        if num_weights < num_stages:
            raise InputError(
                f"the quadratic has {num_weights} weights, and the pipeline {num_stages} stages",
                got=f"{num_stages} stages",
                allowed=f"at most {num_weights} stages, or more dimensions",
                key="learning.task",
            )
        return [int(part[0]) for part in np.array_split(np.arange(num_weights), num_stages)]


@lru_cache(maxsize=2)
def sample_noise(num_samples: int, num_weights: int) -> np.ndarray:
    """Return random rows [num_samples, num_weights] of mean 0 and covariance 1, both exact but for rounding.

    The second half of the rows are the first half times -1, and the columns of the first half are orthogonal.
    """
    half = num_samples // 2
    normal = stream(0, "learning", "quadratic", "noise").standard_normal((half, num_weights))
    rows = np.linalg.qr(normal).Q * np.sqrt(half)
    return np.concatenate([rows, -rows])
