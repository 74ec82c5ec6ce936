"""The table of operators that PyTorch issues: what holds whatever its version, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from clustersim.software.operators import operator_counts

TABLE: dict[str, Any] = YAML(typ="safe").load(
    Path(__file__).parents[2] / "clustersim" / "software" / "operator_counts.yaml"
)
MODES = ("fp32", "bf16", "autocast", "autocast-reused")
PASSES = ("forward", "backward")


def kernels(mode: str, name: str, part: str = "operators") -> tuple[int, int]:
    row = TABLE[mode][part][name]
    return row["forward"]["kernels"], row["backward"]["kernels"]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_every_kind_and_no_operator_launches_less_than_a_kernel(mode: str) -> None:
    assert TABLE[mode]["operators"].keys() == TABLE["fp32"]["operators"].keys()
    rows = [*TABLE[mode]["operators"].values(), *TABLE[mode]["models"].values()]
    assert all(row[each]["launches"] >= row[each]["kernels"] >= 0 for row in rows for each in PASSES)


def test_a_layer_has_the_kernels_of_its_formula() -> None:
    """Forward a product with its bias; backward a product for each operand, and the sum of the bias's gradient."""
    assert kernels("fp32", "fully-connected") == (1, 3)
    assert kernels("fp32", "fully-connected.no-bias") == (1, 2)
    assert kernels("fp32", "softmax.masked") == (3, 2)
    assert kernels("fp32", "add") == (1, 1)


def test_autocast_casts_weights_forward_and_their_gradients_back() -> None:
    for name, parameters in {"fully-connected": 2, "fully-connected.no-bias": 1, "convolution.no-bias": 1}.items():
        forward, backward = kernels("fp32", name)
        assert kernels("autocast", name) == (forward + parameters, backward + parameters)
        assert kernels("autocast-reused", name)[0] == forward


@pytest.mark.parametrize("mode", MODES[:3])
def test_resnet50_is_the_sum_of_its_layers(mode: str) -> None:
    layers = {
        "convolution.first.no-bias": 1,
        "convolution.no-bias": 52,
        "batch-norm": 53,
        "relu": 49,
        "add.images": 16,
        "pooling": 1,
        "pooling.global": 1,
        "fully-connected.two-dimensions": 1,
    }
    sums = [sum(number * kernels(mode, name)[side] for name, number in layers.items()) for side in (0, 1)]
    assert kernels(mode, "resnet50", "models") == tuple(sums)


def test_an_optimizer_has_kernels_a_tensor_or_calls_on_all_of_them() -> None:
    adamw = TABLE["optimizers"]["adamw"]
    assert adamw["for-loop"]["per_tensor"]["kernels"] == len(adamw["foreach"]["calls"]) == 8
    assert [call["depth"] for call in adamw["fused"]["calls"]] == [1, 4]
    assert adamw["foreach"]["per_tensor"]["kernels"] == adamw["fused"]["per_tensor"]["kernels"] == 0


def test_rows_are_read_as_a_yaml_parser_reads_them() -> None:
    found = operator_counts()
    rows = {
        (mode, kind): row
        for mode in ("fp32", "bf16", "autocast", "autocast-reused")
        for part in ("operators", "models")
        for kind, row in TABLE[mode][part].items()
    }
    assert found.keys() == rows.keys()
    for key, (forward, backward) in found.items():
        assert forward._asdict() == rows[key]["forward"]
        assert backward._asdict() == rows[key]["backward"]
