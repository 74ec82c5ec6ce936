"""Residuals of interpolation in the measured tables of kernels: what is left out is predicted from its neighbours.

    python -m tools.table_residuals [--libraries]

Needs the extra `kernels`. One value of one axis is left out of a table at a time (with neighbours that differ by 1,
such as 4,097 beside 4,096), all its points are interpolated between the values below and above it, and the residual is
the logarithm of predicted by measured time. Intervals are then about twice as wide as in use, where residuals are
smaller. At the edge of products, one end of an axis is left out, and the law scaled to meet the new end is compared
with the measured time, beside the law alone. With `--libraries`, all libraries that timed products in bfloat16.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.kernel_model import gemm_seconds, plain_gemm, rates_of
from clustersim.kernels.measured_tables.attention import attention_times
from clustersim.kernels.measured_tables.experts import expert_times
from clustersim.kernels.measured_tables.grid import TimeGrid
from clustersim.kernels.measured_tables.products import product_table
from clustersim.kernels.measured_tables.systems import System, systems, tables_in_use

WIDTHS = (64, 72, 80, 128, 192, 256)
LAW_PRECISION = {"bfloat16": "amp-bf16"}
SHOWN_S = 10e-6


def interpolated(grid: TimeGrid, axis: int) -> np.ndarray:
    """Return the residuals [num_points] and measured seconds, [2, num_points], of all inner values of an axis."""
    pairs = []
    for index in range(1, len(grid.axes[axis]) - 1):
        points, measured_s = grid.at(axis, index)
        left = grid.without(axis, index)
        predicted_s = left.seconds(points)
        known = np.isfinite(predicted_s)
        pairs.append(np.stack([np.log(predicted_s[known] / measured_s[known]), measured_s[known]]))
    return np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0))


def at_edge(grid: TimeGrid, axis: int, index: int, law: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return residuals [2, num_points] at an end of an axis that is left out: of the law, and scaled to the table."""
    points, measured_s = grid.at(axis, index)
    left = grid.without(axis, index)
    edge = left.nearest(points)
    alone_s = law(points)
    scaled_s = alone_s * left.seconds(edge) / law(edge)
    known = np.isfinite(scaled_s)
    return np.stack([np.log(alone_s[known] / measured_s[known]), np.log(scaled_s[known] / measured_s[known])])


def product_law(gpu: str, precision: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return the law's seconds of products (m, n, k) forward on a GPU, in bfloat16."""
    sheet = load_gpu(gpu)
    constants, rates = constants_of(sheet, "tensor"), rates_of(sheet, precision)

    def seconds(points: np.ndarray) -> np.ndarray:
        gemms = [plain_gemm(n, m, k, 1, "forward", constants, 2.0) for m, n, k in points]
        parts = [gemm_seconds(gemms[start : start + 4096], rates, constants) for start in range(0, len(gemms), 4096)]
        return np.concatenate(parts)

    return seconds


def summary(residuals: np.ndarray) -> str:
    """Return bias, median and ninth tenth of residuals, in percent."""
    if not residuals.size:
        return "none"
    bias, median, most = np.median(residuals), np.median(np.abs(residuals)), np.quantile(np.abs(residuals), 0.9)
    return f"{len(residuals):7d}  bias {100 * bias:+5.1f}  median {100 * median:4.1f}  p90 {100 * most:5.1f} %"


def rows(folder: Path, system: System) -> Iterator[tuple[str, str]]:
    """Yield a label and a summary for each table of a system."""
    for dtype in system.products:
        table = product_table(folder, system, dtype)
        if table is None:
            continue
        label = f"{system.name} {dtype} {table.library} {table.version}"
        found = [interpolated(table.grid, axis) for axis in range(3)]
        for name, pair in zip("mnk", found, strict=True):
            yield f"{label} products, {name} left out", summary(pair[0])
        both = np.concatenate(found, axis=1)
        yield f"{label} products, all", summary(both[0])
        yield f"{label} products of 10 us and more", summary(both[0][both[1] >= SHOWN_S])
        if system.gpus and dtype in LAW_PRECISION:
            law = product_law(system.gpus[0], LAW_PRECISION[dtype])
            for axis, name in enumerate("mnk"):
                for index, end in ((0, "least"), (len(table.grid.axes[axis]) - 1, "most")):
                    alone, scaled = at_edge(table.grid, axis, index, law)
                    yield f"{label} beyond {end} {name}: law alone", summary(alone)
                    yield f"{label} beyond {end} {name}: scaled to the edge", summary(scaled)
    for kind in ("attention", "encoder_attention"):
        for width in WIDTHS:
            times = attention_times(folder, system, kind, width)
            if times is not None:
                pairs = np.concatenate([interpolated(times.grid, axis) for axis in range(3)], axis=1)
                yield f"{system.name} {kind} {times.library} {times.version}, heads of {width}", summary(pairs[0])
                long = pairs[0][pairs[1] >= 10 * SHOWN_S]
                yield f"{system.name} {kind} heads of {width}, of 100 us and more", summary(long)
    for dtype in system.experts:
        experts = expert_times(folder, system, dtype)
        if experts is not None:
            pairs = np.concatenate([interpolated(grid, 0) for grid in experts.grids.values()], axis=1)
            yield f"{system.name} experts in {dtype} {experts.library} {experts.version}", summary(pairs[0])


def main(arguments: list[str]) -> int:
    """Print a line for each table."""
    folder = tables_in_use().folder
    for system in systems().values():
        if "--libraries" in arguments:
            for library in ("sglang", "trtllm", "vllm"):
                table = product_table(folder, replace(system, products={"bfloat16": library}), "bfloat16")
                if table is not None:
                    found = np.concatenate([interpolated(table.grid, axis) for axis in range(3)], axis=1)[0]
                    print(f"{system.name} bfloat16 {library} {table.version}: {summary(found)}")
        else:
            for label, text in rows(folder, system):
                print(f"{label}: {text}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
