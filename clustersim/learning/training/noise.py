"""The gradient noise scale during a training: how much the gradients of single samples differ."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from clustersim.learning.tasks import Trainee
from clustersim.results.learning import Rows
from clustersim.seeding import stream

NUM_BATCHES = 32
"""Small batches in an estimate."""

MOST_SAMPLES = 2048
"""Samples in an estimate: all of a small task, or as many of a large one at random."""

_MEASUREMENTS = 10

Scale = Callable[[], Tensor | None]
"""Gives what the optimizer multiplies each element of a gradient by [num_weights]; None for one factor for all."""


class NoiseMeter:
    """Measures the gradient noise scale about ten times in a training of `num_updates` updates.

    It draws from a random stream of its own, and leaves torch's as it was, so that the training stays the same.
    """

    def __init__(self, trainee: Trainee, num_updates: int, seed: int):
        self._trainee, self._rng = trainee, stream(seed, "learning", "noise")
        self._every = num_updates / _MEASUREMENTS
        self._rows: list[tuple[float, float]] = []
        self._next = 0.0

    @property
    def rows(self) -> Rows:
        """Rows of (updates, gradient noise scale in samples)."""
        return tuple(self._rows)

    def evaluated(self, updates: int, weights: Tensor, scale: Scale) -> None:
        """Measure at these weights if it is time to.

        There is no row where the gradient is lost in its noise, and none for a model that mixes the samples of a batch:
        it has no gradient of a single sample.
        """
        if updates < self._next or self._trainee.mixes_samples:
            return
        self._next = updates + self._every
        with torch.random.fork_rng(devices=[]):
            found = noise_scale(self._trainee, weights, self._rng, scale())
        if found is not None:
            self._rows.append((float(updates), found))


def noise_scale(
    trainee: Trainee, weights: Tensor, rng: np.random.Generator, scale: Tensor | None = None
) -> float | None:
    """Return the simple noise scale of the gradients at some weights, in samples: tr(Sigma) / |G|^2.

    Sigma is the covariance of the gradients of single samples, and G is their mean over the task's samples. Both are
    estimated without bias from the gradients g_i of k batches of b samples each, drawn without replacement:
    tr(Sigma) = b / (k - 1) sum |g_i - g|^2, where g is the mean of all g_i, and |G|^2 = |g|^2 - tr(Sigma) / (k b) times
    the share of the samples that were not drawn. The standard error of tr(Sigma) is at most sqrt(2 / (k - 1)) of it.
    It is less the more directions the noise has. None if the estimate of |G|^2 is not positive.

    With `scale` [num_weights], each gradient is multiplied by it first, as by Adam's preconditioner (Qiao et al.,
    Pollux, OSDI 2021, section 3.1). Source: McCandlish et al., arXiv:1812.06162, 2018, appendix A.1, where k is 2 with
    one batch inside the other.
    """
    num_samples = min(trainee.num_samples, MOST_SAMPLES)
    num_batches = min(NUM_BATCHES, num_samples)
    size = num_samples // num_batches
    drawn = rng.permutation(trainee.num_samples)[: num_batches * size]
    gradients = torch.stack([trainee.gradient(weights, each) for each in np.split(drawn, num_batches)]).double()
    if scale is not None:
        gradients *= scale
    mean = gradients.mean(0)
    trace = size * float((gradients - mean).square().sum()) / (num_batches - 1)
    squared = float(mean.square().sum()) - trace / len(drawn) * (1 - len(drawn) / trainee.num_samples)
    found = trace / squared if squared > 0 else math.nan
    return found if math.isfinite(found) else None
