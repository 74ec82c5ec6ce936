"""One layer's phases as calls that can be timed: forward, gradient of the data, gradient of the weights.

Convolutions call torch's own backward with a mask and GEMMs are explicit; any other layer goes through autograd.
Where one kernel computes both gradients (normalisation), its time is that of the data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clustersim.profiling.layers import HookedLayer
from clustersim.profiling.precision import autocast, operand_dtype
from clustersim.profiling.timer import Call

SPLIT_BY_DIFFERENCE = frozenset({"lstm"})
"""Layers whose kernels compute the data's gradient with or without the weights': these take the difference."""


@dataclass(frozen=True)
class Phases:
    """Calls of one layer on separate tensors; None for a phase that it does not have.

    `both` computes both gradients, as training does: their joint time. Where there is no call for
    the weights alone, theirs is the difference.
    `launch` returns forward and backward as a training loop launches them, through autograd.
    """

    forward: Call
    backward_data: Call | None
    backward_weights: Call | None
    both: Call | None
    gradient_sum: Call | None
    launch: Callable[[], tuple[Call, Call | None]]


@dataclass(frozen=True)
class NeighbourTensors:
    """Tensors that a layer's neighbours have just written: inputs in forward, the output's gradient in backward."""

    inputs: list[Tensor]
    gradient: Tensor

    @classmethod
    def of(cls, traced: HookedLayer, device: torch.device) -> NeighbourTensors:
        return cls(_inputs(traced, device), traced.output.tensor(device))


def phases_of(traced: HookedLayer, precision: str, device: torch.device, written: NeighbourTensors) -> Phases:
    """Return the phases of a layer, with weights and kept inputs that no other call touches.

    The tensors of `written` may be shared by many calls, so that they are in the cache while the rest comes from
    memory.
    """
    module = copy.deepcopy(traced.layer.module)
    if isinstance(module, nn.RNNBase):
        module.flatten_parameters()  # a copy's weights are not contiguous; cuDNN would compact them each call
    inputs = _inputs(traced, device)
    gradient = written.gradient
    forward = partial(_forward, module, written.inputs, precision, device)
    through_autograd = _Backward(_out_of_place(module), inputs, gradient, precision, device)
    op = traced.layer.op
    data: Call | None
    weights: Call | None
    both: Call | None = None
    if op in _EXPLICIT:
        data, weights, both = _EXPLICIT[op](module, inputs, gradient, precision)
        if not traced.inputs[0].needs_gradient:
            data = both = None
    elif op in SPLIT_BY_DIFFERENCE:
        data, weights = through_autograd.of(through_autograd.leaves), None
        both = through_autograd.of(through_autograd.leaves + through_autograd.parameters)
    else:
        every = through_autograd.of(through_autograd.leaves + through_autograd.parameters)
        data, weights = (every, None) if through_autograd.leaves else (None, every)
    return Phases(forward, data, weights, both, _gradient_sum(traced, device, gradient), through_autograd.launch)


def _inputs(traced: HookedLayer, device: torch.device) -> list[Tensor]:
    return [x.tensor(device).requires_grad_(x.needs_gradient) for x in traced.inputs]


def _forward(module: nn.Module, inputs: list[Tensor], precision: str, device: torch.device) -> Tensor:
    """Run a layer as training does; one that overwrites its input must not request its gradients."""
    with torch.set_grad_enabled(not getattr(module, "inplace", False)), autocast(precision, device):
        return module(*inputs)


class _Backward:
    """A layer's backward pass through autograd, repeatable after one forward pass."""

    def __init__(self, module: nn.Module, inputs: list[Tensor], gradient: Tensor, precision: str, device: torch.device):
        self.forward = partial(_forward, module, inputs, precision, device)
        self.leaves = [x for x in inputs if x.requires_grad]
        self.parameters = list(module.parameters()) or [
            weight for weight in [getattr(module, "weight", None)] if isinstance(weight, Tensor)
        ]
        self.output: Tensor | None = None
        self.gradient = gradient

    def of(self, wanted: list[Tensor]) -> Call | None:
        """Return the call that computes these gradients, None where there are none."""
        if not wanted:
            return None
        if self.output is None:
            self.output = self.forward()
        return partial(torch.autograd.grad, self.output, wanted, self.gradient, retain_graph=True)

    def launch(self) -> tuple[Call, Call | None]:
        """Return the forward pass, and the backward pass with every gradient."""
        return self.forward, self.of(self.leaves + self.parameters)


def _out_of_place(module: nn.Module) -> nn.Module:
    """Return the layer as one that does not modify its input; its backward kernel is the same."""
    if not getattr(module, "inplace", False):
        return module
    module = copy.copy(module)
    module.inplace = False
    return module


def _convolution(module: Any, inputs: list[Tensor], gradient: Tensor, precision: str) -> tuple[Call, Call, Call]:
    """Return `aten::convolution_backward` for the data, for weights and bias, and for all of them."""
    x = inputs[0].detach().to(operand_dtype(precision))
    weight = module.weight.detach().to(x.dtype)
    has_bias = module.bias is not None
    sizes = [module.out_channels] if has_bias else None
    shared = (sizes, module.stride, module.padding, module.dilation, False, [0, 0], module.groups)
    types = (inputs[0].dtype, module.weight.dtype, module.weight.dtype)

    def backward(*mask: bool) -> list[Tensor]:
        found = torch.ops.aten.convolution_backward(gradient, x, weight, *shared, mask)
        return [each.to(dtype) for each, dtype, wanted in zip(found, types, mask, strict=True) if wanted]

    return (
        partial(backward, True, False, False),
        partial(backward, False, True, has_bias),
        partial(backward, True, True, has_bias),
    )


def _product(module: Any, inputs: list[Tensor], gradient: Tensor, precision: str) -> tuple[Call, Call, None]:
    """Return the two GEMMs of y = x W^T + b: dx = dy W, and dW = dy^T x with db = the sum of dy."""
    weight = module.weight.detach().to(operand_dtype(precision))
    outputs, features = weight.shape
    x = inputs[0].detach().to(weight.dtype).reshape(-1, features)
    gradient = gradient.reshape(-1, outputs)

    def data() -> list[Tensor]:
        return [(gradient @ weight).to(inputs[0].dtype)]

    def weights() -> list[Tensor]:
        found = [(gradient.T @ x).to(module.weight.dtype)]
        return found if module.bias is None else [*found, gradient.sum(0).to(module.weight.dtype)]

    return data, weights, None


def _gradient_sum(traced: HookedLayer, device: torch.device, gradient: Tensor) -> Call | None:
    """Return the addition of gradients where several layers read the output."""
    if traced.num_uses < 2:
        return None
    total = traced.output.tensor(device)

    def add() -> None:
        for _ in range(traced.num_uses - 1):
            total.add_(gradient)

    return add


_Products = Callable[[Any, list[Tensor], Tensor, str], tuple[Call, Call, Call | None]]
_EXPLICIT: dict[str, _Products] = {"convolution": _convolution, "fully-connected": _product}
