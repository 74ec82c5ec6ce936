"""Compares the whole iterations of a profile with the sum of its layers.

A forecast of an iteration is the sum of its layers and the optimizer's step. A profile also has measured iterations.
Those at batch sizes without layer times check the interpolation between batch sizes too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.compute_time import ComputeSpec, build_workload
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.kernels.profile import Profile
from clustersim.model.catalogue import load_model


@dataclass(frozen=True)
class CheckedIteration:
    """One iteration on one device: forecast and measured seconds, and the interquartile range of the measured ones."""

    model: str
    precision: str
    batch: int
    is_profiled: bool
    forecast_s: float
    measured_s: float
    spread_s: float

    @property
    def error(self) -> float:
        """Forecast over measured, less 1."""
        return self.forecast_s / self.measured_s - 1


def checked_iterations(profile: Profile, gpu: Gpu) -> Iterator[CheckedIteration]:
    """Yield every whole iteration of a profile with its forecast from the layers, in ascending batch size."""
    model = load_model(profile.content.model)
    profiled = {(row.precision, row.layout, row.batch) for row in profile.content.layers}
    whole = json.loads(profile.path.read_text(encoding="utf-8"))["whole"]
    for row in sorted(whole, key=lambda row: (row["precision"], row["layout"], row["batch"])):
        precision, layout, batch = row["precision"], row["layout"], row["batch"]
        compute = ComputeSpec.model_validate(
            {"profile": str(profile.path), "layout": None if layout == "none" else layout}
        )
        work = build_workload(model, gpu, batch, precision, OptimizerSpec(), compute)
        is_profiled = (precision, layout, batch) in profiled
        yield CheckedIteration(
            model.name, precision, batch, is_profiled, work.compute_s, row["iteration_s"], row["spread_s"]
        )
