"""The layers of a model at one batch and precision: shapes, types and strides of their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from clustersim.profiling.net import NetGraph, NetLayer
from clustersim.profiling.precision import autocast

_NUM_RANDOM = 2**16


@dataclass(frozen=True)
class Signature:
    """A tensor without its numbers. `sample` has the numbers where they matter: words, labels, and the input of pooling
    on a processor, where branch prediction works better on feature maps than on noise.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    needs_gradient: bool
    sample: Tensor | None = None

    @classmethod
    def of(cls, x: Tensor, keep: bool = False) -> Signature:
        sample = x.detach().clone() if keep else None if x.is_floating_point() else x
        return cls(tuple(x.shape), x.stride(), x.dtype, x.requires_grad, sample)

    @property
    def num_bytes(self) -> int:
        size = 1
        for length in self.shape:
            size *= length
        return size * self.dtype.itemsize

    @property
    def text(self) -> str:
        return f"{self.shape}{self.stride}{self.dtype}{self.needs_gradient}"

    def tensor(self, device: torch.device) -> Tensor:
        """Return a similar tensor of random numbers."""
        if self.sample is not None:
            return self.sample.clone()
        empty = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device)
        return empty.normal_() if device.type == "cuda" else _filled(empty)


def _filled(x: Tensor) -> Tensor:
    """Fill a tensor by repeating a block of random numbers: on a processor, new ones take longer than layers."""
    flat = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,))
    for part in flat.split(_NUM_RANDOM):
        part.copy_(_random(x.dtype)[: part.numel()])
    return x


@cache
def _random(dtype: torch.dtype) -> Tensor:
    return torch.randn(_NUM_RANDOM, dtype=dtype)


@dataclass(frozen=True)
class HookedLayer:
    """A layer with its inputs and output; `num_uses` layers read its output."""

    layer: NetLayer
    inputs: tuple[Signature, ...]
    output: Signature
    num_uses: int

    @property
    def key(self) -> str:
        """Common key of layers that take the same time."""
        signatures = " ".join(x.text for x in (*self.inputs, self.output))
        return f"{self.layer.op} {self.layer.module} {signatures} x{self.num_uses}"

    @property
    def num_bytes(self) -> int:
        """Bytes that a forward pass touches: inputs, parameters, output."""
        parameters = sum(parameter.numel() * parameter.element_size() for parameter in self.layer.module.parameters())
        return sum(x.num_bytes for x in (*self.inputs, self.output)) + parameters

    def shape(self) -> dict[str, Any]:
        """Return its sizes, in the form of a profile."""
        found: dict[str, Any] = {"input": list(self.inputs[0].shape), "output": list(self.output.shape)}
        module = self.layer.module
        if isinstance(module, nn.Conv2d):
            found |= {"kernel": list(module.kernel_size), "stride": list(module.stride)}
            found |= {"pad": [int(pad) for pad in module.padding], "groups": module.groups}
        return found


def trace_layers(graph: NetGraph, batch: tuple[Tensor, Tensor], precision: str) -> tuple[HookedLayer, ...]:
    """Run a model forward once and return its layers, with the shapes, types and strides of their tensors."""
    inputs: dict[int, tuple[Signature, ...]] = {}
    outputs: dict[int, Signature] = {}
    with _hooks(graph, inputs, outputs), autocast(precision, batch[0].device):
        graph(*batch)
    return tuple(
        HookedLayer(layer, inputs[index], outputs[index], graph.num_uses(index))
        for index, layer in enumerate(graph.layers)
    )


@contextmanager
def _hooks(graph: NetGraph, inputs: dict[int, tuple[Signature, ...]], outputs: dict[int, Signature]) -> Iterator[None]:
    def before(index: int) -> Any:
        keep = graph.layers[index].op == "pooling" and next(graph.parameters()).device.type == "cpu"
        return lambda module, arguments: inputs.update({index: tuple(Signature.of(x, keep) for x in arguments)})

    def after(index: int) -> Any:
        return lambda module, arguments, output: outputs.update({index: Signature.of(output)})

    handles = []
    for index, layer in enumerate(graph.layers):
        handles.append(layer.module.register_forward_pre_hook(before(index)))
        handles.append(layer.module.register_forward_hook(after(index)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
