"""A torch module whose weights, and gradients, are one vector each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clustersim.errors import InputError

Loss = Callable[[Tensor, Tensor], Tensor]


class FlatModel:
    """A module with its data, as a `Trainee`.

    `inputs` and `targets` have a row for each sample to train on, `test_inputs` and `test_targets` for each sample that
    is evaluated. `loss` is the mean loss of a batch. Targets of whole numbers are classes. Statistics that a module
    keeps beside its weights (batch normalization) are one set, which all workers update.
    """

    def __init__(
        self,
        module: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        test_inputs: Tensor,
        test_targets: Tensor,
        loss: Loss = nn.functional.cross_entropy,
    ):
        self._module, self._loss = module, loss
        self._inputs, self._targets = inputs, targets
        self._test_inputs, self._test_targets = test_inputs, test_targets
        self._has_classes = not targets.is_floating_point()
        self._weights, self._gradient = _flattened(module)
        self.initial = self._weights.clone()
        self.num_samples = len(inputs)
        self.mixes_samples = any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in module.modules())
        self.labels: np.ndarray | None = targets.numpy() if self._has_classes and targets.ndim == 1 else None

    def gradient(self, weights: Tensor, samples: np.ndarray) -> Tensor:
        self._weights.copy_(weights)
        self._gradient.zero_()
        chosen = torch.from_numpy(samples)
        self._loss(self._module(self._inputs[chosen]), self._targets[chosen]).backward()
        return self._gradient.clone()

    def evaluate(self, weights: Tensor) -> tuple[float, float | None]:
        self._weights.copy_(weights)
        self._module.eval()
        with torch.no_grad():
            outputs = self._module(self._test_inputs)
            loss = float(self._loss(outputs, self._test_targets))
            right = (outputs.argmax(1) == self._test_targets).double().mean() if self._has_classes else None
        self._module.train()
        return loss, None if right is None else float(right)

    def stage_starts(self, num_stages: int) -> list[int]:
        """Return where each stage begins: layers with weights in their order, as many in each stage as can be."""
        starts = _layer_starts(self._module)
        if len(starts) < num_stages:
            raise InputError(
                f"the task's model has {len(starts)} layers with weights, and the pipeline {num_stages} stages",
                got=f"{num_stages} stages",
                allowed=f"at most {len(starts)} stages, or a task with more layers",
                key="learning.task",
            )
        return [int(layers[0]) for layers in np.array_split(starts, num_stages)]


def _layer_starts(module: nn.Module) -> list[int]:
    """Return where each layer with weights begins in the vector; weights that layers share are of the first one."""
    starts, end, seen = [], 0, set()
    for layer in module.modules():
        own = [each for each in layer.parameters(recurse=False) if id(each) not in seen]
        seen |= {id(each) for each in own}
        if own:
            starts.append(end)
            end += sum(each.numel() for each in own)
    return starts


def _flattened(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Make the parameters of a module, and their gradients, views of two vectors [num_weights]; return these."""
    parameters: list[Any] = list(module.parameters())
    weights = torch.cat([each.detach().reshape(-1) for each in parameters])
    gradient = torch.zeros_like(weights)
    start = 0
    for each in parameters:
        end = start + each.numel()
        each.data, each.grad = weights[start:end].view_as(each), gradient[start:end].view_as(each)
        start = end
    return weights, gradient
