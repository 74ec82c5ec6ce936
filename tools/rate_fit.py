"""Convolutions on tensor cores of GPUs whose kernels nobody timed one by one: from training rates of single GPUs.

`convolution_rates.csv` has the rates, each with its source and its part: rates to fit and rates to score. Of every chip
two constants are fitted: the share of the peak that large convolutions reach, alike in all phases, and how often maps
are transposed with channels first. The others are the A100's. Two of them are times in units of a multiprocessor's
peak, so they go with it (`kernel_constants.constants_of`).

    python tools/rate_fit.py

replaces the part `convolutions` of kernel_fit.yaml, and prints the error of every rate.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast

from write_fit import HEADER, write

from clustersim.hardware import load_gpu
from clustersim.kernels import kernel_constants
from clustersim.kernels.kernel_constants import fit_document
from clustersim.kernels.layer_times import Library, estimate_layers
from clustersim.kernels.programs.channels_last import Layout
from clustersim.model.builder import Builder
from clustersim.model.catalogue import load_model
from clustersim.model.catalogue.resnet import _bottleneck, _conv
from clustersim.model.layer import Model

RATES = Path(__file__).with_name("convolution_rates.csv")
FITTED = {
    "ga102": ["rtx-3090", "a10g", "a40", "rtx-a5000", "rtx-a6000"],
    "ad102": ["rtx-4090", "l40s", "l4"],
    "gb202": ["rtx-5090", "rtx-pro-6000"],
}
SOURCE = "fitted to training rates of {gpu} (tools/convolution_rates.csv); what was not fitted is the A100's"
REFERENCE = "a100"


class Fit(NamedTuple):
    """The fitted constants of one chip's convolutions."""

    share: float
    layout_passes: float


class Rate(NamedTuple):
    """A published rate of one GPU; `seconds` of an iteration. `over` names the GPU over which it counts, if any."""

    gpu: str
    model: str
    precision: str
    layout: Layout
    library: Library
    batch: int
    seconds: float
    part: str
    over: str
    source: str


def rates() -> list[Rate]:
    """Return every published rate."""
    lines = [line for line in RATES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [_rate(row) for row in csv.DictReader(lines)]


def _rate(row: Mapping[str, str]) -> Rate:
    value, batch = float(row["value"]), int(row["batch"])
    seconds = value / 1e3 if row["unit"] == "ms" else batch / value
    layout, library = cast(Layout, row["layout"]), cast(Library, row["library"])
    names = row["gpu"], row["model"], row["precision"], layout, library
    return Rate(*names, batch, seconds, row["part"], row["over"], row["source"])


def error(rate: Rate, every: Sequence[Rate]) -> float:
    """Return log(forecast / measured) of an iteration, over that of another GPU where the rate counts over it."""
    own = log(_forecast_s(rate) / rate.seconds)
    if not rate.over:
        return own
    same = rate.model, rate.precision, rate.layout
    (other,) = [each for each in every if each.gpu == rate.over and (each.model, each.precision, each.layout) == same]
    return own - log(_forecast_s(other) / other.seconds)


def _forecast_s(rate: Rate) -> float:
    gpu = replace(load_gpu(rate.gpu))  # a new object, as estimates are cached by it
    layers = estimate_layers(
        _model(rate.model), gpu, rate.batch, rate.precision, library=rate.library, layout=rate.layout
    ).layers
    return sum(layer.forward_s + layer.backward_s for layer in layers)


def _model(name: str) -> Model:
    """Return a model of the catalogue, or ResNet-50 for 32 x 32 images (GPU-Insights, benchmark/models/resnet50.py)."""
    if name != "resnet50-32":
        return load_model(name)
    net = Builder(name, "ResNet-50 for 32 x 32 images", source="xiaoran007/GPU-Insights")
    x = _conv(net, "", "1", net.input(3, 32, 32), 64, kernel=3, relu=True)
    for stage, (num_blocks, stage_stride) in enumerate(zip((3, 4, 6, 3), (1, 2, 2, 2), strict=True)):
        for number in range(num_blocks):
            stride = stage_stride if number == 0 else 1
            x = _bottleneck(net, f"layer{stage + 1}.{number}.", x, 64 * 2**stage, stride)
    net.loss("loss", net.fully_connected("fc", net.global_pool("avgpool", x), 10))
    return net.model()


def convolutions(fits: Mapping[str, Fit]) -> dict[str, Any]:
    """Return the part `convolutions` of kernel_fit.yaml with these constants."""
    gpu = load_gpu(REFERENCE)
    return {
        chip: {
            "source": SOURCE.format(gpu=FITTED[chip][0]),
            "gpus": FITTED[chip],
            "as": "ga100-tensor",
            "per_multiprocessor_flop_per_s": round(gpu.flop_per_s["amp-fp16"] / gpu.num_multiprocessors),
            "share": fit.share,
            "layout_passes": fit.layout_passes,
        }
        for chip, fit in fits.items()
    }


def fitted(every: Sequence[Rate]) -> dict[str, Fit]:
    """Return the constants of each chip with the least mean square of the errors of its rates to fit."""
    return {chip: min(_tried(), key=lambda fit: _misfit(chip, fit, every)) for chip in FITTED}


def _tried() -> Iterator[Fit]:
    of_a100 = fit_document()["chips"]["ga100-tensor"]["shape"]["layout_passes"]
    for passes in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield from (Fit(round(0.02 * step, 2), round(passes * of_a100, 4)) for step in range(25, 51))


def _misfit(chip: str, fit: Fit, every: Sequence[Rate]) -> float:
    _use({chip: fit})
    return sum(error(rate, every) ** 2 for rate in every if rate.part == "fit" and rate.gpu in FITTED[chip])


def _use(fits: Mapping[str, Fit]) -> None:
    """Let forecasts use these constants instead of those in the file."""
    fit_document()["convolutions"] = convolutions(fits)
    kernel_constants.convolutions_by_gpu.cache_clear()
    kernel_constants.constants_with_convolutions.cache_clear()


def main() -> int:
    every = rates()
    _use(fitted(every))
    for part in ("fit", "score"):
        errors = [(rate, error(rate, every)) for rate in every if rate.part == part and rate.gpu != "a100-pcie"]
        for rate, value in errors:
            of = f" over {rate.over}" if rate.over else ""
            print(
                f"{part:5} {rate.gpu:12} {rate.model:11} {rate.precision:8} {rate.batch:5}{of}: {exp(value) - 1:+.0%}"
            )
        print(f"{part}: median {exp(median(abs(value) for _, value in errors)) - 1:.0%}")
    write("kernel_fit.yaml", HEADER, {section: dict(entries) for section, entries in fit_document().items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
