"""Activations kept for the backward pass against the tensors that torch's autograd saves, model by model."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from clustersim.kernels.memory import activation_bytes, kept_bytes, weight_copy_bytes
from clustersim.model.catalogue import load_model
from clustersim.model.layer import Model

if TYPE_CHECKING:
    import torch

    from clustersim.profiling.net import NetGraph

pytestmark = pytest.mark.torch
BATCH = 2
WITHIN = {"gpt2": 0.02, "lstm": 0.10}
USUALLY_WITHIN = 0.04
ATTENTION = ("qkv", "scores", "softmax", "drop_weights")  # one fused kernel in torch: what it keeps is its own affair
HALVED = ["alexnet", "googlenet", "gpt2-small", "inception-v3", "nin", "resnet50", "squeezenet-1.0", "vgg16"]


def models() -> list[str]:
    torch_models = pytest.importorskip("clustersim.profiling.models")
    return sorted(torch_models.MODELS)


class Saved:
    """Bytes that autograd saves while it is in use, each storage once, by kind of the saving layer.

    Masks of dropout count as CUDA's, one byte an element (a CPU saves a number); parameters do not count.
    """

    def __init__(self, graph: NetGraph):
        self.bytes_of: defaultdict[str, float] = defaultdict(float)
        self._seen = {parameter.untyped_storage()._cdata for parameter in graph.parameters()}
        self._keep_alive: list[torch.Tensor] = []
        self._running = "input"
        for layer in graph.layers:
            layer.module.register_forward_pre_hook(lambda module, inputs, op=layer.op: self._run(op))

    def _run(self, op: str) -> None:
        self._running = op

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen.add(storage._cdata)
            self._keep_alive.append(tensor)
            self.bytes_of[self._running] += storage.nbytes() / (tensor.itemsize if self._running == "dropout" else 1)
        return tensor


def saved_bytes(name: str) -> dict[str, float]:
    """Return the bytes that a batch in fp32 saves, by kind of layer."""
    import torch

    from clustersim.profiling.models import build_model

    graph = build_model(name).train()
    sample, target = graph.batch(BATCH, torch.device("meta"), "nchw")
    saved = Saved(graph)
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor):
        graph(sample, target)
    return dict(saved.bytes_of)


def bytes_saved_under_autocast(name: str) -> dict[str, float]:
    """Return the bytes that a batch saves under autocast to bfloat16, by kind of layer, copies of weights included.

    Autocast does nothing on the meta device, so tensors are fake ones that say they are on a CPU.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from clustersim.profiling.models import build_model

    graph = build_model(name).train()
    with FakeTensorMode():
        for module in graph.modules():
            for key, parameter in module.named_parameters(recurse=False):
                setattr(module, key, torch.nn.Parameter(torch.empty(parameter.shape)))
            for key, buffer in module.named_buffers(recurse=False):
                setattr(module, key, torch.empty(buffer.shape, dtype=buffer.dtype))
        sample, target = graph.batch(BATCH, torch.device("cpu"), "nchw")
        saved = Saved(graph)
        with (
            torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor),
            torch.autocast("cpu", dtype=torch.bfloat16),
        ):
            graph(sample, target)
    return dict(saved.bytes_of)


def ours_without_attention(model: Model, precision: str) -> float:
    inside = sum(
        size
        for layer, size in zip(model.layers, kept_bytes(model, precision), strict=True)
        if layer.name.endswith(tuple(f"attention.{part}" for part in ATTENTION))
    )
    return BATCH * (activation_bytes(model, precision) - inside)


@pytest.mark.parametrize("name", models())
def test_a_model_keeps_for_its_backward_pass_what_torch_saves(name: str) -> None:
    saved = saved_bytes(name)
    theirs = sum(saved.values()) - saved.get("attention", 0.0)
    within = next((share for start, share in WITHIN.items() if name.startswith(start)), USUALLY_WITHIN)
    assert ours_without_attention(load_model(name), "fp32") == pytest.approx(theirs, rel=within)


@pytest.mark.parametrize("name", HALVED)
def test_under_autocast_a_model_keeps_what_torch_saves_and_a_copy_of_the_weights_of_its_products(name: str) -> None:
    saved = bytes_saved_under_autocast(name)
    model = load_model(name)
    copies = weight_copy_bytes(model, "amp-bf16")
    theirs = sum(saved.values()) - saved.get("attention", 0.0)
    ours = ours_without_attention(model, "amp-bf16")
    assert ours == pytest.approx(theirs - copies, rel=0.1)
