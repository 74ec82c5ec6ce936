"""Networks written in torch are equal to the catalogue's."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clustersim.interchange.imported import Imported
from clustersim.interchange.torch_model import import_torch, parse_input
from clustersim.model import MODELS, Layer, Model, load_model
from tests.interchange.traced import traced_in

pytestmark = pytest.mark.torch


@pytest.fixture
def traced(tmp_path: Path) -> Any:
    """Return what imports the `build` of some lines of code."""
    return partial(traced_in, tmp_path)


def catalogue_case(name: str) -> tuple[Model, Imported]:
    from clustersim.profiling.models import build_model

    graph = build_model(name)
    shape = ",".join(map(str, graph.sample.shape[1:]))
    inputs = [shape, ":int64"] if graph.has_images else [f"{shape}:int64"] * 2
    code = f"from clustersim.profiling.models import build_model\nbuild = lambda: build_model({name!r})\n"
    file = Path("zoo.py")
    file.write_text(code)
    return load_model(name), import_torch(f"{file}:build", [parse_input(text) for text in inputs])


def products(model: Model) -> list[tuple[float, float, float, tuple[tuple[str, int], ...]]]:
    return [
        (layer.flop, layer.flop_backward_data, layer.flop_backward_weights, tuple(sorted(layer.shape.items())))
        for layer in model.layers
        if layer.flop
    ]


@pytest.mark.parametrize("name", MODELS)
def test_torch_builders_agree_with_the_catalogue_product_by_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from clustersim.profiling.models import MODELS as BUILDERS

    if name not in BUILDERS:
        pytest.skip("this model is not written in torch yet")
    monkeypatch.chdir(tmp_path)
    catalogue, imported = catalogue_case(name)
    assert imported.notes == ()
    assert imported.model.num_parameters == catalogue.num_parameters
    model = of_all_pairs(imported.model)
    assert (model.flop, model.flop_backward) == (catalogue.flop, catalogue.flop_backward)
    assert sorted(products(model)) == sorted(products(catalogue))


def of_all_pairs(model: Model) -> Model:
    """Return a model whose attention computes what a mask hides as well, as the catalogue's GPTs do."""

    def unmasked(layer: Layer) -> Layer:
        times = 2.0 * math.prod(layer.shape.values()) / layer.flop if layer.op == "matmul" else 1.0
        return replace(layer, flop=times * layer.flop, flop_backward_data=times * layer.flop_backward_data)

    return replace(model, layers=tuple(unmasked(layer) for layer in model.layers))


RESNET50 = """
class Block(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, filters, 1, bias=False), nn.BatchNorm2d(filters)
        self.conv2, self.bn2 = nn.Conv2d(filters, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters)
        self.conv3, self.bn3 = nn.Conv2d(filters, 4 * filters, 1, bias=False), nn.BatchNorm2d(4 * filters)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != 4 * filters:
            shortcut = nn.Conv2d(channels, 4 * filters, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(4 * filters))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)

class build(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage, num_blocks in enumerate((3, 4, 6, 3)):
            blocks = []
            for number in range(num_blocks):
                blocks.append(Block(channels, 64 * 2**stage, 2 if stage and not number else 1))
                channels = 256 * 2**stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(2048, 1000)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))
"""


def test_resnet50_as_people_write_it_forecasts_like_the_catalogues(traced: Any, tmp_path: Path) -> None:
    import clustersim
    from clustersim.model.write_workload import write_workload_file

    model = traced(RESNET50, "3,224,224").model
    assert model.num_parameters == 25_557_032
    assert model.flop / 2 == pytest.approx(4.09e9, rel=1e-3)
    names = {layer.name for layer in model.layers}
    assert {"conv1", "layer1.0.conv2", "layer1.0.add", "layer1.0.relu", "layer1.0.relu.2", "fc"} <= names
    path = write_workload_file(model, tmp_path / "mine.yaml")
    seconds = []
    for name in (str(path), "resnet50"):
        scenario = {
            "model": name,
            "num_gpus": [1, 8],
            "batch": {"per_gpu": 32},
            "topology": {"kind": "star", "num_hosts": 8, "host": {"gpu": "m40"}, "link": "ethernet-10g"},
            "software": "plain",
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        }
        seconds.append([run.iteration_s for run in clustersim.sweep(clustersim.load_scenario(scenario)).runs])
    assert seconds[0] == pytest.approx(seconds[1], rel=0.02)
