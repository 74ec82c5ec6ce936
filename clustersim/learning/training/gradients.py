"""Gradients of workers: each on its own next samples, compressed before they are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clustersim.learning.spec import LearningSpec
from clustersim.learning.tasks import Trainee
from clustersim.learning.training.compression import Compressor
from clustersim.learning.training.samples import WorkerSamples, pools


class Draw(NamedTuple):
    """The numbers of the samples on which a worker computes its next gradient [batch]."""

    worker: int
    samples: np.ndarray


class Gradients:
    """The next gradients of `num_workers` workers, at any weights."""

    def __init__(
        self, trainee: Trainee, spec: LearningSpec, num_workers: int, seed: int, compressor: Compressor | None = None
    ):
        of_workers = pools(spec.data, trainee.num_samples, trainee.labels, num_workers, seed)
        self._samples = [WorkerSamples(pool, spec.batch, seed, worker) for worker, pool in enumerate(of_workers)]
        self._trainee, self._compressor = trainee, compressor

    @property
    def keeps_residual(self) -> bool:
        """Whether a gradient changes the next one of its worker, even if it is dropped."""
        return self._compressor is not None and self._compressor.keeps_residual

    def draw(self, workers: Sequence[int]) -> list[Draw]:
        """Return the samples of the next gradients of some workers [len(workers)]."""
        return [Draw(worker, self._samples[worker].next()) for worker in workers]

    def mean(self, draws: Sequence[Draw], weights: Tensor) -> Tensor:
        """Return the mean [num_weights] of the gradients on some draws at these weights; a new tensor.

        Without compression it is computed in one batch, where that is the same.
        """
        samples = [draw.samples for draw in draws]
        if self._compressor is None and not self._trainee.mixes_samples:
            return self._trainee.gradient(weights, samples[0] if len(samples) == 1 else np.concatenate(samples))
        gradients = [self._trainee.gradient(weights, each) for each in samples]
        if self._compressor is None:
            return torch.stack(gradients).mean(0)
        sent = [self._compressor.sent(draw.worker, own) for draw, own in zip(draws, gradients, strict=True)]
        return self._compressor.mean(sent)
