"""Convolutions of GA102, AD102 and GB202, whose constants come from training rates of single GPUs."""

from __future__ import annotations

import csv
from math import exp, log
from pathlib import Path
from statistics import median

import pytest

from clustersim.hardware import GPUS, load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.kernel_constants import constants_for, constants_of, fit_document
from clustersim.model import load_model
from clustersim.model.catalogue import MODELS

RATES = Path(__file__).parents[2] / "tools" / "convolution_rates.csv"
NAMED = [gpu for entry in fit_document()["convolutions"].values() for gpu in entry["gpus"]]
OTHERS = [name for name in GPUS if name not in NAMED and "amp-fp16" in load_gpu(name).flop_per_s]


def rows() -> list[dict[str, str]]:
    """Rates of networks in the catalogue that count by themselves."""
    lines = [line for line in RATES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [row for row in csv.DictReader(lines) if row["model"] in MODELS]


def error(row: dict[str, str]) -> float:
    """Return log(forecast / measured) of an iteration without its update."""
    batch, value = int(row["batch"]), float(row["value"])
    layers = estimate_layers(
        load_model(row["model"]),
        load_gpu(row["gpu"]),
        batch,
        row["precision"],
        library=row["library"],  # type: ignore[arg-type]
        layout=row["layout"],  # type: ignore[arg-type]
    ).layers
    return log(
        sum(layer.forward_s + layer.backward_s for layer in layers)
        / (value / 1e3 if row["unit"] == "ms" else batch / value)
    )


def test_rates_that_were_fitted_are_near() -> None:
    errors = [error(row) for row in rows() if row["part"] == "fit"]
    assert len(errors) == 8
    assert max(map(abs, errors)) < log(1.15)


def test_rates_that_were_not_fitted_are_nearer_than_with_other_chips_constants() -> None:
    """72 % in the median, and 181 % at most, with the constants of the A100 and the H100."""
    errors = [abs(error(row)) for row in rows() if row["part"] == "score"]
    assert exp(median(errors)) - 1 < 0.15
    assert exp(max(errors)) - 1 < 0.4


def test_every_rate_has_a_source_and_a_part() -> None:
    lines = [line for line in RATES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines):
        assert row["source"]
        assert row["part"] in ("fit", "score")
        assert row["gpu"] in GPUS


@pytest.mark.parametrize("name", NAMED)
def test_overheads_of_tiles_go_with_the_peak_of_a_multiprocessor(name: str) -> None:
    gpu, a100 = load_gpu(name), load_gpu("a100")
    ratio = (
        gpu.flop_per_s["amp-fp16"] / gpu.num_multiprocessors / (a100.flop_per_s["amp-fp16"] / a100.num_multiprocessors)
    )
    own, other = constants_of(gpu, "tensor").shape, constants_of(a100, "tensor").shape
    assert own.convolution_prologue == pytest.approx(ratio * other.convolution_prologue, rel=1e-6)
    assert own.convolution_tile_half == pytest.approx(ratio * other.convolution_tile_half, rel=1e-6)


@pytest.mark.parametrize("name", NAMED)
def test_plain_products_are_those_of_the_architecture(name: str) -> None:
    gpu = load_gpu(name)
    own, of_architecture = constants_of(gpu, "tensor"), constants_for(gpu.architecture, "tensor", name)
    assert own.shape.matmul_prologue == of_architecture.shape.matmul_prologue
    assert {key: own.efficiency[key] for key in own.efficiency if "matmul" in key} == {
        key: value for key, value in of_architecture.efficiency.items() if "matmul" in key
    }
    assert constants_of(gpu, "ordinary") == constants_for(gpu.architecture, "ordinary", name)


@pytest.mark.parametrize("name", OTHERS)
def test_other_gpus_keep_their_constants(name: str) -> None:
    gpu = load_gpu(name)
    if gpu.product_share is None:
        assert constants_of(gpu, "tensor") is constants_for(gpu.architecture, "tensor", name)


def test_a_limit_of_power_keeps_the_constants_of_the_board() -> None:
    assert constants_of(load_gpu("rtx-3090 at 280 W"), "tensor").efficiency["forward"] == pytest.approx(
        constants_of(load_gpu("rtx-3090"), "tensor").efficiency["forward"]
    )
