"""Activations kept for the backward pass against the tensors that torch's autograd saves, model by model."""

from __future__ import annotations

from collections import defaultdict

import pytest

from clustersim.workload.catalogue import load_model
from clustersim.workload.memory import activation_elements, kept_elements

pytestmark = pytest.mark.torch
BATCH = 2
WITHIN = {"gpt2": 0.02, "lstm": 0.10}
USUALLY_WITHIN = 0.04
ATTENTION = ("qkv", "scores", "softmax", "drop_weights")  # one fused kernel in torch: what it keeps is its own affair


def models() -> list[str]:
    torch_models = pytest.importorskip("clustersim.profiling.models")
    return sorted(torch_models.MODELS)


def saved_elements(name: str) -> dict[str, float]:
    """Return the 4-byte elements of a sample that autograd saves, each storage once, by kind of the saving layer.

    Masks of dropout count as CUDA's, one byte each (a CPU saves a float); parameters do not count.
    """
    import torch

    from clustersim.profiling.models import build_model

    graph = build_model(name).train()
    sample, target = graph.batch(BATCH, torch.device("meta"), "nchw")
    storages = {parameter.untyped_storage()._cdata: None for parameter in graph.parameters()}
    keep_alive = []
    saved: defaultdict[str, float] = defaultdict(float)
    running = ["input"]

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = None
            keep_alive.append(tensor)
            saved[running[0]] += storage.nbytes() / BATCH / 4 * (0.25 if running[0] == "dropout" else 1.0)
        return tensor

    for layer in graph.layers:
        layer.module.register_forward_pre_hook(lambda module, inputs, op=layer.op: running.__setitem__(0, op))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        graph(sample, target)
    return dict(saved)


@pytest.mark.parametrize("name", models())
def test_a_model_keeps_for_its_backward_pass_what_torch_saves(name: str) -> None:
    saved = saved_elements(name)
    model = load_model(name)
    inside = sum(
        kept_elements(layer, reader)
        for layer, reader in zip(model.layers, model.layers[1:], strict=False)
        if layer.name.endswith(tuple(f"attention.{part}" for part in ATTENTION))
    )
    ours = activation_elements(model) - inside
    theirs = sum(saved.values()) - saved.get("attention", 0.0)
    within = next((share for start, share in WITHIN.items() if name.startswith(start)), USUALLY_WITHIN)
    assert ours == pytest.approx(theirs, rel=within)
