"""Tables of experts forward: routed tokens through a gated pair of products each, as one fused operation.

Columns of `moe_perf.parquet`: kernel_source, moe_dtype, num_tokens, hidden_size, inter_size, topk, num_experts,
moe_tp_size, moe_ep_size, distribution (of tokens over experts: `balanced`, or `power_law_` with its exponent), latency
in ms. A time contains the sorting of tokens by expert, both products, the gate between them and the weighted sum, not
the exchange between GPUs (ai-dynamo/aiconfigurator, commit 095f58a5, collector/trtllm/collect_moe.py). `num_tokens` are
those of all GPUs of a group: one of them has num_experts / moe_ep_size experts of inter_size / moe_tp_size features,
and num_tokens topk / moe_ep_size rows. There is no grid of shapes: each model's was timed at 27 numbers of tokens, so
that only the number of rows is interpolated.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clustersim.kernels.measured_tables.grid import TimeGrid
from clustersim.kernels.measured_tables.reading import MS, read_columns, table_files
from clustersim.kernels.measured_tables.systems import ExpertTable, System

FAMILY, NAME = "moe", "moe"
_SIZES = ("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")


class ExpertShape(NamedTuple):
    """One GPU's experts: features of a token, features between the two products, and how many experts."""

    hidden: int
    inter: int
    num_experts: int


class ExpertTimes(NamedTuple):
    """Seconds forward by the number of routed rows, for each shape, and whose kernel it is."""

    grids: dict[ExpertShape, TimeGrid]
    library: str
    version: str
    kernel: str


def expert_files(folder: Path, system: System, dtype: str) -> list[Path]:
    """Return the files of a system's experts in a number format, the newest version first."""
    table = system.experts.get(dtype)
    return [] if table is None else table_files(folder, system.name, FAMILY, table.library, NAME, "moe_dtype", dtype)


@lru_cache(maxsize=4)
def expert_times(folder: Path, system: System, dtype: str) -> ExpertTimes | None:
    """Return the times of a system's experts, of each shape in the newest version that has it; None without a table."""
    table, grids, versions = system.experts.get(dtype), dict[ExpertShape, TimeGrid](), list[str]()
    if table is None:
        return None
    for path in expert_files(folder, system, dtype):
        found = _grids(path, dtype, table)
        versions += [path.parent.name] if found.keys() - grids.keys() else []
        grids = found | grids
    return ExpertTimes(grids, table.library, " and ".join(versions), table.kernel) if grids else None


def _grids(path: Path, dtype: str, table: ExpertTable) -> dict[ExpertShape, TimeGrid]:
    """Return the seconds of each shape of one file by the number of routed rows, with as many for every expert.

    Where there are fewer rows than experts, it depends on the shape of the whole model how many experts have work.
    """
    wanted = {"moe_dtype": dtype, "kernel_source": table.kernel, "distribution": "balanced"}
    read = read_columns(path, [*_SIZES, "num_tokens", "latency"], wanted)
    hidden, inter, topk, experts, tensor, expert = (read[name] for name in _SIZES)
    shapes = np.column_stack([hidden, inter // tensor, experts // expert])
    rows = read["num_tokens"] * topk / expert
    kinds, kind_of = np.unique(shapes, axis=0, return_inverse=True)
    return {
        ExpertShape(*map(int, kind)): TimeGrid.of_rows([rows[here]], read["latency"][here] * MS, least=0.0)
        for number, kind in enumerate(kinds)
        for here in [(kind_of.ravel() == number) & (rows >= kind[2])]
        if here.any()
    }
