"""Published training rates of single GPUs, from `published_rates.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log
from pathlib import Path
from typing import Any

from clustersim.hardware import load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.programs.channels_last import Layout
from clustersim.model.catalogue import MODELS, load_model
from clustersim.model.layer import Model

RATES_FILE = Path(__file__).with_name("published_rates.yaml")


@dataclass(frozen=True)
class RateCurve:
    """Samples per second of one GPU by batch size, with one software that holds images in one `layout`."""

    model: str
    gpu: str
    precision: str
    software: str
    source: str
    samples_per_s: Mapping[int, float]
    layout: Layout = "nchw"

    def distance(self, batch: int) -> float:
        """Return |log| of the ratio between a batch and the nearer end of the published range; 0 within the range."""
        batches = sorted(self.samples_per_s)
        if batches[0] <= batch <= batches[-1]:
            return 0.0
        return min(abs(log(batch / batches[0])), abs(log(batch / batches[-1])))


@lru_cache(maxsize=1)
def published_rates() -> tuple[RateCurve, ...]:
    """Return every published curve."""
    from ruamel.yaml import YAML

    document: dict[str, Any] = YAML(typ="safe", pure=True).load(RATES_FILE.read_text(encoding="utf-8"))
    return tuple(RateCurve(**curve) for curve in document["curves"])


def find_curve(model: Model, gpu: Gpu, batch: int, precision: str) -> RateCurve | None:
    """Return the curve of this model on this chip with the nearest batches; the first one if several are equally near.

    A model of the catalogue matches itself. A user's own model, imported or from a workload file, matches the model of
    the catalogue with the same GEMMs and convolutions, whatever the names. A chip matches whatever its memory size.
    """
    is_shipped = model.name in MODELS and load_model(model.name) == model
    curves = [
        curve
        for curve in published_rates()
        if (curve.model == model.name if is_shipped else _same_products(load_model(curve.model), model))
        and curve.precision == precision
        and _same_chip(load_gpu(curve.gpu), gpu, precision)
    ]
    return min(curves, key=lambda curve: curve.distance(batch), default=None)


def _same_products(known: Model, model: Model) -> bool:
    """Say whether two models have the same GEMMs, in any order, and as many parameters in as many bits."""
    if (known.num_parameters, known.weight_share) != (model.num_parameters, model.weight_share):
        return False
    return _products(known) == _products(model)


def _products(model: Model) -> list[tuple[object, ...]]:
    rows = (
        (one.flop, one.flop_backward_data, one.flop_backward_weights, sorted(one.shape.items())) for one in model.layers
    )
    return sorted(row for row in rows if row[0])


def _same_chip(known: Gpu, gpu: Gpu, precision: str) -> bool:
    if known.name == gpu.name:
        return True
    pairs = [(sheet.architecture, sheet.flop_per_s.get(precision), sheet.memory_bytes_per_s, sheet.num_multiprocessors)
             for sheet in (known, gpu)]  # fmt: skip
    return pairs[0] == pairs[1]
