"""Branches of layers and shared weights: in the catalogue, in files, and what files may not contain."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from clustersim.errors import InputError
from clustersim.model import load_model, read_workload_file
from clustersim.model.write_workload import write_workload_file


@pytest.mark.parametrize("name", ["googlenet", "inception-v3", "squeezenet-1.0", "siamese-omniglot"])
def test_branches_and_weights_come_back_from_a_file(tmp_path: Path, name: str) -> None:
    model = load_model(name)
    again, _ = read_workload_file(write_workload_file(model, tmp_path / "model.yaml"))
    assert again.layers == model.layers


@pytest.mark.parametrize(("name", "modules"), [("googlenet", 9), ("inception-v3", 11), ("squeezenet-1.0", 8)])
def test_every_module_has_branches_that_a_concatenation_joins(name: str, modules: int) -> None:
    layers = load_model(name).layers
    joins = [after for before, after in pairwise(layers) if before.branch and not after.branch]
    assert [join.op for join in joins] == ["concat"] * modules


def test_a_second_tower_has_the_layers_of_the_first_and_none_of_its_parameters() -> None:
    """38,951,745 parameters, as those count who have built the network of figure 4."""
    model = load_model("siamese-omniglot")
    left, right = ([layer for layer in model.layers if layer.branch == side] for side in ("left", "right"))
    assert model.num_parameters == 38_951_745
    assert [layer.flop for layer in left] == [layer.flop for layer in right]
    assert [layer.weights_of for layer in right if layer.weights_of] == [
        layer.name for layer in left if layer.num_parameters
    ]
    assert not sum(layer.num_parameters for layer in right)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("{name: b, flop: 1, weights_of: c}", "layers.1.weights_of: no layer above with parameters is called 'c'"),
        ("{name: b, flop: 1, weights_of: b}", "layers.1.weights_of: no layer above with parameters is called 'b'"),
        ("{name: b, flop: 1, weights_of: a, parameter_bytes: 8}", "layers.1.weights_of: 'b' has its own parameters"),
        ("{name: b, flop: 1, branch: [x]}", "layers.1.branch: expected a name"),
    ],
)
def test_weights_are_those_of_a_layer_above(tmp_path: Path, second: str, message: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(f"name: net\nlayers:\n  - {{name: a, flop: 1, parameter_bytes: 8}}\n  - {second}\n")
    with pytest.raises(InputError) as caught:
        read_workload_file(path)
    assert message in str(caught.value)
