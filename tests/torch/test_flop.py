"""Our FLOP and parameters against torch: every convolution and matrix product of every model of the catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from clustersim.kernels.attention_rates import pair_share
from clustersim.kernels.fused_attention import is_fused
from clustersim.model.builder import Builder
from clustersim.model.catalogue import MODELS, load_model
from clustersim.model.layer import Layer

pytestmark = pytest.mark.torch


class Counted(NamedTuple):
    """What torch's counter saw for one sample."""

    forward: int
    backward: int
    parameters: int


def count(module: Any, *inputs: Any) -> Counted:
    """Run a module forward and backward on meta tensors under torch's FLOP counter."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter:
        outputs = module(*inputs)
        forward = counter.get_total_flops()
        outputs.sum().backward()
    parameters = sum(parameter.numel() for parameter in module.parameters()) if hasattr(module, "parameters") else 0
    return Counted(forward, counter.get_total_flops() - forward, parameters)


def torch_convolution(shape: Any, bias: bool, needs_gradient: bool) -> Counted:
    """Count a convolution, group by group: torch's own count of a grouped weight gradient forgets the groups."""
    import torch

    groups = shape["groups"]
    total = Counted(0, 0, 0)
    for _ in range(groups):
        module = torch.nn.Conv2d(
            shape["channels"] // groups,
            shape["filters"] // groups,
            (shape["kernel_h"], shape["kernel_w"]),
            (shape["stride_h"], shape["stride_w"]),
            (shape["pad_h"], shape["pad_w"]),
            bias=bias,
            device="meta",
        )
        size = (1, shape["channels"] // groups, shape["height"], shape["width"])
        one = count(module, torch.empty(size, device="meta", requires_grad=needs_gradient))
        total = Counted(*(sum(pair) for pair in zip(total, one, strict=True)))
    return total


def torch_linear(shape: Any, bias: bool, needs_gradient: bool) -> Counted:
    import torch

    modules = [torch.nn.Linear(shape["inputs"], shape["outputs"], bias, device="meta") for _ in range(shape["count"])]
    size = (shape["rows"], shape["inputs"])
    one = count(modules[0], torch.empty(size, device="meta", requires_grad=needs_gradient))
    return Counted(*(value * len(modules) for value in one))


def torch_product(shape: Any) -> Counted:
    """Count a product of two activations, both of which want a gradient."""
    import torch

    left = torch.empty(1, shape["rows"], shape["inputs"], device="meta", requires_grad=True)
    right = torch.empty(1, shape["inputs"], shape["outputs"], device="meta", requires_grad=True)
    one = count(torch.matmul, left, right)
    return Counted(*(value * shape["count"] for value in one))


def assert_agrees(layer: Layer, counted: Counted) -> None:
    assert layer.flop == counted.forward, layer.name
    assert layer.flop_backward_data + layer.flop_backward_weights == counted.backward, layer.name


@pytest.mark.parametrize("name", MODELS)
def test_every_convolution_and_product_of_the_catalogue(name: str) -> None:
    checked = 0
    seen = set()  # a transformer's blocks are alike: each kind of layer is counted once
    for layer in load_model(name).layers:
        kind = replace(layer, name="", shape={}), tuple(layer.shape.items())
        if str(kind) in seen:
            continue
        seen.add(str(kind))
        needs_gradient = layer.flop_backward_data > 0
        if layer.op == "convolution":
            weights = layer.shape["kernel_h"] * layer.shape["kernel_w"] * layer.shape["channels"]
            bias = layer.num_parameters > weights // layer.shape["groups"] * layer.shape["filters"]
            counted = torch_convolution(layer.shape, bias, needs_gradient)
            assert layer.num_parameters == (0 if layer.weights_of else counted.parameters), layer.name
        elif layer.op == "fully-connected":
            bias = layer.num_parameters > layer.shape["inputs"] * layer.shape["outputs"] * layer.shape["count"]
            counted = torch_linear(layer.shape, bias, needs_gradient)
            assert layer.num_parameters in (counted.parameters, 0), layer.name
        elif layer.op == "matmul":
            counted = torch_product(layer.shape)
            if is_fused(layer):  # skips what the mask hides
                counted = Counted(*(round(value * pair_share(layer)) for value in counted))
        else:
            continue
        assert_agrees(layer, counted)
        checked += 1
    assert checked > 0 or any(layer.op in ("lstm", "locally-connected") for layer in load_model(name).layers)


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(1, 1, 0), (3, 2, 1), ((1, 7), 1, (0, 3)), (11, 4, 2)])
@pytest.mark.parametrize("is_input", [True, False])
def test_any_convolution(groups: int, kernel: Any, stride: int, pad: Any, is_input: bool) -> None:
    net = Builder("one", "One convolution")
    x = net.input(16, 61, 47)
    x = x if is_input else net.batch_norm("norm", x)
    net.conv("conv", x, 24, kernel, stride, pad, groups)
    layer = net.layers[-1]
    counted = torch_convolution(layer.shape, bias=True, needs_gradient=not is_input)
    assert_agrees(layer, counted)
    assert layer.num_parameters == counted.parameters


@pytest.mark.parametrize("bias", [True, False])
def test_any_fully_connected_layer(bias: bool) -> None:
    net = Builder("one", "One product")
    net.fully_connected("fc", net.batch_norm("norm", net.input(12, 5, 5)), 100, bias)
    layer = net.layers[-1]
    counted = torch_linear(layer.shape, bias, needs_gradient=True)
    assert_agrees(layer, counted)
    assert layer.num_parameters == counted.parameters


def test_output_sizes_of_pooling_are_those_of_torch() -> None:
    import torch

    from clustersim.model.builder import pooled_size

    for size in range(5, 40):
        for kernel, stride, pad in [(2, 2, 0), (3, 2, 0), (3, 2, 1), (3, 1, 1), (5, 3, 2)]:
            for ceil in (False, True):
                x = torch.empty(1, 1, size, size, device="meta")
                y = torch.nn.functional.max_pool2d(x, kernel, stride, pad, ceil_mode=ceil)
                assert pooled_size(size, kernel, stride, pad, ceil) == y.shape[-1], (size, kernel, stride, pad, ceil)


def test_parameters_of_an_lstm_are_those_of_torch() -> None:
    import torch

    net = Builder("one", "One LSTM", sample="sequence")
    net.lstm("lstm", net.embedding("words", 35, 200, [1000]), 300)
    module = torch.nn.LSTM(200, 300, device="meta")
    assert net.layers[-1].num_parameters == sum(parameter.numel() for parameter in module.parameters())
