"""Pauses in place of compute, where ranks share cores: layers take their time and leave the cores alone.

What is measured then is how ranks meet; what they compute is nothing, and takes what it was told to take.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from clustersim.profiling.net import Graph

_BACKWARD = 2.0  # backward takes so many times as long as forward


def pace(graph: Graph, iteration_s: float) -> None:
    """Let each layer of a model pause for an equal share of an iteration, a third of it forward and the rest backward.

    Gradients are zero, and there when the layer's pause in backward is over, so that they travel as real ones do.
    """
    paces = _Pace(iteration_s / (1 + _BACKWARD) / len(graph.layers))
    for number, layer in enumerate(graph.layers):
        _replace(layer.module, paces, number)


class _Pace:
    """When each layer is to be done. One that woke late takes the time off the next, as a GPU would have gone on."""

    def __init__(self, forward_s: float):
        self._forward_s = forward_s
        self._forward_began = self._backward_began = 0.0
        self._num_backward = 0

    def forward(self, number: int) -> None:
        """Sleep until a layer is done forward."""
        if number == 0:
            self._forward_began, self._num_backward = time.perf_counter(), 0
        _sleep_until(self._forward_began + (number + 1) * self._forward_s)

    def backward(self) -> None:
        """Sleep until the next layer is done backward."""
        if self._num_backward == 0:
            self._backward_began = time.perf_counter()
        self._num_backward += 1
        _sleep_until(self._backward_began + self._num_backward * _BACKWARD * self._forward_s)


def _replace(module: nn.Module, paces: _Pace, number: int) -> None:
    """Let a layer pass on a number that depends on its inputs and its parameters, and nothing else."""

    def forward(*inputs: Tensor) -> Tensor:
        parts = [*(each for each in inputs if each.is_floating_point()), *module.parameters()]
        firsts = [part.reshape(-1)[:1].sum() for part in parts]
        result = 0.0 * torch.stack(firsts).sum() if firsts else torch.zeros(())
        paces.forward(number)
        if result.requires_grad:
            result.register_hook(lambda gradient: paces.backward())
        return result

    module.forward = forward


def _sleep_until(end_s: float) -> None:
    left_s = end_s - time.perf_counter()
    if left_s > 0:
        time.sleep(left_s)
