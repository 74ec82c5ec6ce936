"""Models in torch are equal to the catalogue's, layer by layer, and are timed as in training."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.model.catalogue import load_model

pytestmark = pytest.mark.torch

NAMES = (
    "alexnet", "alexnet-caffe", "caffenet", "googlenet", "googlenet-aux", "gpt2-small", "gpt2-medium", "gpt2-large",
    "gpt2-xl", "inception-v3", "inception-v3-aux", "lstm-lm", "lstm-lm-medium", "nin", "resnet18", "resnet34",
    "resnet50", "resnet101", "resnet152", "squeezenet-1.0", "vgg11", "vgg13", "vgg16", "vgg19",
)  # fmt: skip
NAMED_BY_SIZES = ("gpt-2x64x4-seq16", "gpt-3x32x2", "gpt-1x64x2-seq8-vocab100")


def test_every_model_is_compared() -> None:
    from clustersim.profiling.models import MODELS

    assert set(MODELS) == set(NAMES)


@pytest.mark.parametrize("name", [*NAMES, *NAMED_BY_SIZES])
def test_layers_are_the_catalogues_with_their_parameters_and_flop(name: str) -> None:
    from clustersim.profiling.models import build_model

    graph, model = build_model(name).eval(), load_model(name)
    layers = {layer.name: layer for layer in model.layers}
    assert [part for layer in graph.layers for part in (layer.name, *layer.fused)] == list(layers)
    flop = forward_flop(graph)
    for layer in graph.layers:
        parts = [layers[part] for part in (layer.name, *layer.fused)]
        parameters = sum(parameter.numel() for parameter in layer.module.parameters())
        assert parameters == sum(part.num_parameters for part in parts), layer.name
        if layer.op == "lstm":
            continue  # torch counts no FLOP of an LSTM
        assert flop[layer.name] == sum(part.flop for part in parts), layer.name
    assert sum(parameter.numel() for parameter in graph.parameters()) == model.num_parameters


@pytest.mark.parametrize("name", ["gpt-3", "gpt-2x64x5", "gpt-0x64x4", "gpt-2x64x4-seq0", "gpt-2x64x4-vocab0", "bert"])
def test_a_name_that_gives_no_gpts_sizes_is_unknown(name: str) -> None:
    from clustersim.profiling.models import model_writer

    assert model_writer(name) is None


def forward_flop(graph: Any) -> dict[str, int]:
    """Return torch's own count of every layer, of one sample."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    found: dict[str, int] = {}
    counter = FlopCounterMode(display=False)
    started: list[int] = []
    for layer in graph.layers:
        layer.module.register_forward_pre_hook(lambda *_: started.append(counter.get_total_flops()))
        layer.module.register_forward_hook(
            lambda *_, name=layer.name: found.update({name: counter.get_total_flops() - started[-1]})
        )
    targets = torch.zeros(graph.sample.shape if not graph.has_images else 1, dtype=torch.long, device="meta")
    with counter:
        graph(graph.sample, targets)
    return found


def test_every_parameter_gets_a_gradient() -> None:
    import torch

    from clustersim.profiling.models import build_model

    graph = build_model("squeezenet-1.0").materialise(torch.device("cpu"), "nhwc")
    graph(*graph.batch(1, torch.device("cpu"), "nhwc")).backward()
    assert all(parameter.grad is not None for parameter in graph.parameters())


def test_outputs_are_let_go_after_their_last_reader() -> None:
    from clustersim.profiling.models import build_model

    graph = build_model("googlenet")
    released = [source for layer in graph.layers for source in layer.last_uses]
    assert sorted(released) == [-1, *(index for index, layer in enumerate(graph.layers) if layer.op != "loss")]
    for index, layer in enumerate(graph.layers):
        for source in layer.last_uses:
            assert not any(source in later.sources for later in graph.layers[index + 1 :])
