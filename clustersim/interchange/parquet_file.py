"""A sweep as a Parquet file: one row per run, as pandas, polars, DuckDB and Spark read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from clustersim.errors import InputError
from clustersim.interchange.csv_file import HasRows, rows_in
from clustersim.results import Sweep
from clustersim.results.files import atomically
from clustersim.results.rows import Cell, cell_as, kinds_of

_ROWS = 1000
"""Rows that are in memory at the same time."""


def check_parquet() -> None:
    """Raise InputError where pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError:
        message = "Parquet files need pyarrow, which is not installed; pip install 'clustersim[parquet]'"
        raise InputError(message, got="no pyarrow") from None


def write_parquet(sweep: Sweep | HasRows, path: str | Path) -> Path:
    """Write the rows of `Sweep.to_rows`; missing values are null. A column is of integers, numbers or texts."""
    check_parquet()
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    path, kinds = Path(path), kinds_of(rows_in(sweep))
    types = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    with atomically(path) as file, ParquetWriter(file, schema, compression="zstd") as writer:
        for rows in _groups(rows_in(sweep)):
            columns = [[cell_as(kind, row.get(name)) for row in rows] for name, kind in kinds.items()]
            arrays = [pyarrow.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)]
            writer.write_table(pyarrow.table(arrays, schema=schema))
    return path


def _groups(rows: Iterable[dict[str, Cell]]) -> Iterator[list[dict[str, Cell]]]:
    waiting = iter(rows)
    while group := list(islice(waiting, _ROWS)):
        yield group
