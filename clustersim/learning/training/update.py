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

    def scale(self) -> Tensor | None:
        """Return what the rule multiplies each element of a gradient by, besides its rate [num_weights].

        Adam divides by the root of the mean square of the element. None where all elements have one factor.
        """
        state = self._optimizer.state.get(self._parameter, {})
        if self._spec.kind != "adam" or not state:
            return None
        group = self._optimizer.param_groups[0]
        mean_square = state["exp_avg_sq"] / (1 - group["betas"][1] ** float(state["step"]))
        return 1 / (mean_square.sqrt() + group["eps"])

    def step(self, gradient: Tensor, factor: float) -> None:
        """Update the weights with a gradient, at `factor` times the rate."""
        self._parameter.grad = gradient
        self._optimizer.param_groups[0]["lr"] = self._spec.rate * factor
        self._optimizer.step()
