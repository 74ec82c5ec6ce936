"""What measured tables there are: for each GPU its products, attention and experts, with library and range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from clustersim.kernels.measured_tables import installed
from clustersim.kernels.measured_tables.attention import AXES as ATTENTION_AXES
from clustersim.kernels.measured_tables.attention import attention_file
from clustersim.kernels.measured_tables.experts import expert_times
from clustersim.kernels.measured_tables.installed import Missing, Tables
from clustersim.kernels.measured_tables.products import AXES, product_table
from clustersim.kernels.measured_tables.reading import read_columns
from clustersim.kernels.measured_tables.systems import System, systems


def list_kernels() -> Mapping[str, str]:
    """Return a line for each table, by GPU and kind of kernel; where none is installed, how to get them."""
    found = installed.search_tables()
    if isinstance(found, Missing):
        return {"none": f"{found.reason}; until then kernels have the law's times"}
    return dict(line for system in systems().values() for line in _lines(found, system))


def _lines(tables: Tables, system: System) -> Iterator[tuple[str, str]]:
    names = ", ".join(system.gpus) or f"{system.title} (no sheet)"
    for dtype in system.products:
        table = product_table(tables.folder, system, dtype)
        if table is not None:
            ranges = ", ".join(f"{name} {_range(axis)}" for name, axis in zip(AXES, table.grid.axes, strict=True))
            cast = ", cast included" if table.has_cast else ""
            what = f"{table.library} {table.version}, {table.grid.num_points} products, {ranges}{cast}"
            yield f"{names}: products in {dtype}", what
    for kind, name in (("attention", "attention, causal"), ("encoder_attention", "attention without a mask")):
        path = attention_file(tables.folder, system, kind)
        if path is not None:
            rows = read_columns(path, [*ATTENTION_AXES, "head_dim"], {})
            widths = ", ".join(map(str, np.unique(rows["head_dim"])))
            what = f"{path.parent.parent.name} {path.parent.name}, {len(rows['isl'])} rows, forward in bfloat16"
            yield f"{names}: {name}", f"{what}, {_range(rows['isl'])} tokens, heads of {widths}"
    for dtype in system.experts:
        times = expert_times(tables.folder, system, dtype)
        if times is not None:
            num_points = sum(grid.num_points for grid in times.grids.values())
            tokens = np.concatenate([grid.axes[0] for grid in times.grids.values()])
            what = f"{times.library} {times.version}, {num_points} points of {len(times.grids)} shapes, forward"
            yield f"{names}: experts in {dtype}", f"{what}, {_range(tokens)} routed tokens"


def _range(values: np.ndarray) -> str:
    return f"{int(values.min())} to {int(values.max())}"
