"""Tables of products: Y[m, n] = X[m, k] W[n, k]^T, as a linear layer computes it forward.

Columns of `gemm_perf.parquet`: framework, version, device, kernel_source, gemm_dtype, m, n, k, latency in ms. A file
has several number formats; no point is there twice. How they were timed is in the collectors of the package's project
(github.com/ai-dynamo/aiconfigurator, commit 095f58a5, collector/{vllm,sglang,trtllm}/collect_gemm.py and
collector/helper.py): one CUDA graph with the same product on one to six weights in turn, three warm-ups, then the mean
of six replays between two CUDA events; operands are random normals.

Times in `fp8` contain the cast of X from bfloat16 by a scale that is computed, since the layer is given bfloat16. The
weights are cast before. TensorRT-LLM's cast was timed alone for the same m and k (`scale_matrix_perf.parquet`,
`computescale_perf.parquet` of the family `quantize`): its time is subtracted. Points of which it is more than
`_MOST_CAST` are left out, since the difference of two such times is not known well. Times in `nvfp4` contain the cast
too, and no table has it alone.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clustersim.kernels.measured_tables.grid import TimeGrid
from clustersim.kernels.measured_tables.reading import MS, read_columns, table_files
from clustersim.kernels.measured_tables.systems import System

FAMILY, NAME = "gemm", "gemm"
AXES = ("m", "n", "k")
_CASTS = ("scale_matrix", "computescale")
_MOST_CAST = 0.8


class ProductTable(NamedTuple):
    """Seconds of products on a grid (m, n, k), and the library, its version, its kernels and the device."""

    grid: TimeGrid
    library: str
    version: str
    kernels: str
    device: str
    has_cast: bool


@lru_cache(maxsize=8)
def product_table(folder: Path, system: System, dtype: str) -> ProductTable | None:
    """Return the table of products of a system in a number format; None where there is none."""
    library = system.products.get(dtype)
    paths = table_files(folder, system.name, FAMILY, library or "", NAME, "gemm_dtype", dtype)
    if not library or not paths:
        return None
    path = paths[0]
    rows = read_columns(path, [*AXES, "latency", "kernel_source", "device"], {"gemm_dtype": dtype})
    grid = TimeGrid.of_rows([rows[name] for name in AXES], rows["latency"] * MS)
    casts = _casts(folder, system.name, library, path.parent.name) if dtype == "fp8" else None
    kernels, devices = (sorted(set(rows[name].tolist())) for name in ("kernel_source", "device"))
    return ProductTable(
        grid if casts is None else without_casts(grid, casts),
        library,
        path.parent.name,
        ", ".join(kernels),
        ", ".join(devices),
        has_cast=dtype != "bfloat16" and casts is None,
    )


def _casts(folder: Path, system: str, library: str, version: str) -> list[TimeGrid] | None:
    """Return the grids (m, k) of the parts of a cast; None where a part was not timed."""
    paths = [folder / system / "quantize" / library / version / f"{name}_perf.parquet" for name in _CASTS]
    if not all(path.exists() for path in paths):
        return None
    found = []
    for path in paths:
        rows = read_columns(path, ["m", "k", "latency"], {"quant_dtype": "fp8"})
        timed = rows["latency"] > 0
        found.append(TimeGrid.of_rows([rows["m"][timed], rows["k"][timed]], rows["latency"][timed] * MS))
    return found


def without_casts(grid: TimeGrid, casts: list[TimeGrid]) -> TimeGrid:
    """Return products (m, n, k) without the time of the casts (m, k) that they contain."""
    m, k = np.meshgrid(grid.axes[0], grid.axes[2], indexing="ij")
    points = np.column_stack([m.ravel(), k.ravel()])
    cast_s = np.sum([cast.seconds(points) for cast in casts], axis=0).reshape(m.shape)[:, None, :]
    whole_s = np.exp(grid.log_seconds)
    with np.errstate(invalid="ignore", divide="ignore"):
        alone = np.where(cast_s <= _MOST_CAST * whole_s, np.log(whole_s - cast_s), np.nan)
    return TimeGrid(grid.axes, alone)
