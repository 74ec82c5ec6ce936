"""Compressed gradients with error feedback, as a compression of the cost model sends them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clustersim.kernels.compression import Compression
from clustersim.seeding import stream


class WorkerCompression:
    """What others receive of the vectors of one worker.

    A compression that keeps a residual adds it to the next gradient (error feedback; Seide et al., 2014), so what was
    sent and the `residual` [num_weights] together are the sum of all gradients. Chance (int8's rounding) depends on
    seed and worker.
    """

    def __init__(self, compression: Compression, seed: int, worker: int):
        self._compression = compression
        self._rng = stream(seed, "learning", "compression", worker)
        self._keeps_residual = compression.residual_bytes_per_parameter > 0
        self.residual: np.ndarray | None = None

    def sent(self, gradient: Tensor) -> Tensor:
        """Return what others receive of the next gradient [num_weights]; keep the rest of it."""
        values = gradient.numpy()
        if self.residual is not None:
            values = values + self.residual
        sent = self._compression.decoded(values, self._rng)
        if self._keeps_residual:
            self.residual = values - sent
        return torch.from_numpy(sent)

    def sent_weights(self, weights: Tensor) -> Tensor:
        """Return what others receive of weights [num_weights], which have no error feedback."""
        return torch.from_numpy(self._compression.decoded(weights.numpy(), self._rng))


class Compressor:
    """A compression of all workers, and of the sums of their gradients."""

    def __init__(self, compression: Compression, num_workers: int, seed: int):
        compression.check_decoded()
        self.keeps_residual = compression.residual_bytes_per_parameter > 0
        self._adds_on_the_way = compression.adds_on_the_way
        self._workers = [WorkerCompression(compression, seed, worker) for worker in range(num_workers)]
        self._of_sums = WorkerCompression(compression, seed, num_workers)

    def sent(self, worker: int, gradient: Tensor) -> Tensor:
        """Return what others receive of a worker's next gradient [num_weights]."""
        return self._workers[worker].sent(gradient)

    def sent_weights(self, worker: int, weights: Tensor) -> Tensor:
        """Return what others receive of a worker's weights [num_weights]."""
        return self._workers[worker].sent_weights(weights)

    def mean(self, gradients: list[Tensor]) -> Tensor:
        """Return the mean of decoded gradients; it is encoded too where encoded gradients are added on the way."""
        mean = torch.stack(gradients).mean(0)
        return self._of_sums.sent_weights(mean) if self._adds_on_the_way else mean
