"""What the workers of a real server compute and the server updates: weights without meaning, or a task that learns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from clustersim.learning import LearningSpec
from clustersim.learning.tasks import Trainee
from validate.lab.collectives import ITEM_BYTES


class Model(ABC):
    """A model of workers and their server, each of which has its own copy; `weights` [num_weights] is a tensor.

    `kept` are the weights [num_weights] after some numbers of updates, to be looked at when the training is over.
    """

    weights: Any

    def __init__(self) -> None:
        self.kept: dict[int, np.ndarray] = {}

    @abstractmethod
    def gradient(self, worker: int, weights: Any) -> Any:
        """Return a worker's next gradient [num_weights] at these weights."""

    @abstractmethod
    def update(self, gradients: Sequence[Any]) -> None:
        """Update the weights with the gradients of one update."""


class Blank(Model):
    """Weights that nothing changes, in messages of `num_bytes`."""

    def __init__(self, num_bytes: int):
        import torch

        super().__init__()
        self.weights = torch.zeros(num_bytes // ITEM_BYTES - 1)
        self._gradient = torch.zeros_like(self.weights)

    def gradient(self, worker: int, weights: Any) -> Any:
        return self._gradient

    def update(self, gradients: Sequence[Any]) -> None:
        for gradient in gradients:
            self.weights.add_(gradient, alpha=-1e-6)


def trainee_of(spec: LearningSpec, seed: int) -> Trainee:
    """Return the model and the data of the task that is trained."""
    assert spec.task is not None
    return spec.task.trainee(seed)


class Trained(Model):
    """The model of a task, which SGD trains; workers have the samples that they have in clustersim.

    Weights are kept after each `evaluate_every` updates, and at the end. It is trained by torch's own optimizer, and
    shares no code with clustersim's training but the task's module and data.
    """

    def __init__(self, spec: LearningSpec, seed: int, num_workers: int, num_updates: int):
        import torch

        from clustersim.learning.training.samples import WorkerSamples, pools

        super().__init__()
        assert spec.optimizer.kind in ("sgd", "momentum")
        assert spec.evaluate_every is not None
        self._spec, self._every = spec, spec.evaluate_every
        self._num_updates, self._num_done = num_updates, 0
        self._trainee = trainee_of(spec, seed)
        each = pools(spec.data, self._trainee.num_samples, self._trainee.labels, num_workers, seed)
        self._samples = [WorkerSamples(pool, spec.batch, seed, worker) for worker, pool in enumerate(each)]
        self._parameter = torch.nn.Parameter(self._trainee.initial.clone())
        self.weights = self._parameter.data
        momentum = spec.optimizer.momentum if spec.optimizer.kind == "momentum" else 0.0
        self._optimizer = torch.optim.SGD([self._parameter], lr=spec.optimizer.rate, momentum=momentum)
        self._keep()

    def gradient(self, worker: int, weights: Any) -> Any:
        return self._trainee.gradient(weights, self._samples[worker].next())

    def update(self, gradients: Sequence[Any]) -> None:
        factor = self._spec.optimizer.factor(self._num_done, self._num_updates, len(gradients))
        self._optimizer.param_groups[0]["lr"] = self._spec.optimizer.rate * factor
        self._parameter.grad = sum(gradients) / len(gradients)
        self._optimizer.step()
        self._num_done += 1
        if self._num_done % self._every == 0 or self._num_done == self._num_updates:
            self._keep()

    def _keep(self) -> None:
        self.kept[self._num_done] = self.weights.numpy().copy()
