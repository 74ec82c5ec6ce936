"""Tables of experts forward: routed tokens through a gated pair of products each, as one fused operation.

Columns of `moe_perf.parquet`: moe_dtype, num_tokens, hidden_size, inter_size, topk, num_experts, moe_tp_size,
moe_ep_size, distribution (of tokens over experts: `balanced`, or `power_law_` with its exponent), latency in ms. A time
contains the sorting of tokens by expert, both products, the gate between them and the weighted sum, not the exchange
between GPUs. There is no grid of shapes: each model's shape was timed at 27 numbers of tokens, so that only the
number of tokens is interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clustersim.kernels.measured_tables.grid import Grid
from clustersim.kernels.measured_tables.reading import MS, read_columns, table_files
from clustersim.kernels.measured_tables.systems import System

FAMILY, NAME = "moe", "moe"
AXIS = "num_tokens"


class ExpertShape(NamedTuple):
    """Experts of a model: features of a token and between the products, experts a token, experts, and their split."""

    hidden_size: int
    inter_size: int
    topk: int
    num_experts: int
    moe_tp_size: int = 1
    moe_ep_size: int = 1
    distribution: str = "balanced"


def expert_files(folder: Path, system: System, dtype: str) -> tuple[Path, ...]:
    """Return the files of a system's experts in a number format, the newest version first."""
    library = system.experts.get(dtype)
    return () if library is None else tuple(table_files(folder, system.name, FAMILY, library, NAME, "moe_dtype", dtype))


@lru_cache(maxsize=4)
def expert_grids(path: Path, dtype: str) -> dict[ExpertShape, Grid]:
    """Return the seconds of each shape by the number of tokens, the median where several kernels were timed."""
    keys = ExpertShape._fields
    rows = read_columns(path, [AXIS, "latency", *keys], {"moe_dtype": dtype})
    order = np.lexsort([rows[key] for key in reversed(keys)])
    shapes = list(zip(*(rows[key][order].tolist() for key in keys), strict=True))
    starts = [number for number in range(len(shapes)) if number == 0 or shapes[number] != shapes[number - 1]]
    return {
        ExpertShape(*shapes[start]): Grid.of_rows(
            [rows[AXIS][order[start:end]]], rows["latency"][order[start:end]] * MS
        )
        for start, end in zip(starts, [*starts[1:], len(shapes)], strict=True)
    }


def expert_seconds(paths: Sequence[Path], dtype: str, shape: ExpertShape, num_tokens: np.ndarray) -> np.ndarray:
    """Return the seconds forward of experts [num_points], from the first file that has the shape.

    NaN where the shape or the number of tokens was not timed.
    """
    points = np.asarray(num_tokens, dtype=float)[:, None]
    for path in paths:
        grid = expert_grids(path, dtype).get(shape)
        if grid is not None:
            return grid.seconds(points)
    return np.full(len(points), np.nan)
