"""Pauses instead of compute, for ranks that share cores: layers sleep for a given time and leave the cores idle.

This measures only the communication; the compute time is an input.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from clustersim.profiling.net import NetGraph

_BACKWARD = 2.0  # factor of backward on the time of forward


def pace(graph: NetGraph, iteration_s: float) -> None:
    """Let each layer of a model pause for an equal share of an iteration, a third of it forward and the rest backward.

    Gradients are zero and ready at the end of the layer's pause in backward, so they are sent as real ones are.
    """
    paces = _Pace(iteration_s / (1 + _BACKWARD) / len(graph.layers))
    for number, layer in enumerate(graph.layers):
        _replace(layer.module, paces, number)


class _Pace:
    """The end time of each layer. A late wake-up shortens the next pause, as a GPU would not have waited."""

    def __init__(self, forward_s: float):
        self._forward_s = forward_s
        self._forward_began = self._backward_began = 0.0
        self._num_backward = 0

    def forward(self, number: int) -> None:
        """Sleep until the forward pass of a layer is done."""
        if number == 0:
            self._forward_began, self._num_backward = time.perf_counter(), 0
        _sleep_until(self._forward_began + (number + 1) * self._forward_s)

    def backward(self) -> None:
        """Sleep until the backward pass of the next layer is done."""
        if self._num_backward == 0:
            self._backward_began = time.perf_counter()
        self._num_backward += 1
        _sleep_until(self._backward_began + self._num_backward * _BACKWARD * self._forward_s)


def _replace(module: nn.Module, paces: _Pace, number: int) -> None:
    """Let a layer return only a number that depends on its inputs and its parameters."""

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
