"""The update of a vector of weights by an optimizer of torch."""

from __future__ import annotations

import torch
from torch import Tensor

from clustersim.learning.optimizer import LearningOptimizer


class Updater:
    """Weights [num_weights], changed in place by an optimizer of torch, whose rate is set at each step."""

    def __init__(self, weights: Tensor, spec: LearningOptimizer):
        self._spec = spec
        self._parameter = torch.nn.Parameter(weights)
        kinds = {
            "sgd": lambda: torch.optim.SGD([self._parameter], lr=spec.rate),
            "momentum": lambda: torch.optim.SGD([self._parameter], lr=spec.rate, momentum=spec.momentum),
            "adam": lambda: torch.optim.Adam([self._parameter], lr=spec.rate),
        }
        self._optimizer = kinds[spec.kind]()

    @property
    def weights(self) -> Tensor:
        """The weights now; the next step changes them in place."""
        return self._parameter.data

    def step(self, gradient: Tensor, factor: float) -> None:
        """Update the weights with a gradient, at `factor` times the rate."""
        self._parameter.grad = gradient
        self._optimizer.param_groups[0]["lr"] = self._spec.rate * factor
        self._optimizer.step()
