"""Columns of a table file as arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from clustersim.errors import InputError

MS = 1e-3


def table_files(folder: Path, system: str, family: str, library: str, name: str, column: str, value: str) -> list[Path]:
    """Return the files of a library that have a value in a column, the newest version first.

    Files are `<system>/<family>/<library>/<version>/<name>_perf.parquet`. Some versions have only a few more models.
    """
    found = (folder / system / family / library).glob(f"*/{name}_perf.parquet")
    newest_first = sorted(found, key=lambda path: _order(path.parent.name), reverse=True)
    return [path for path in newest_first if value in values_of(path, column)]


def _order(version: str) -> list[tuple[int, str]]:
    """Return a version such as 1.3.0rc20 as a key by which versions are in order.

    >>> sorted(["1.3.0rc20", "0.5.14", "0.5.6.post2", "1.3.0rc9"], key=_order)
    ['0.5.6.post2', '0.5.14', '1.3.0rc9', '1.3.0rc20']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[a-z]+", version)]


def columns_of(path: Path) -> frozenset[str]:
    """Return the names of a file's columns."""
    from pyarrow.parquet import read_schema

    return frozenset(read_schema(path).names)


def read_columns(path: Path, columns: Sequence[str], wanted: Mapping[str, str | int]) -> dict[str, np.ndarray]:
    """Return columns [num_rows] of the rows that have the `wanted` values; a filter on a missing column is left out.

    Older files lack `window_size`, since they have no sliding windows.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        known = columns_of(path)
        filters = [(name, "=", value) for name, value in wanted.items() if name in known]
        table = read_table(path, columns=list(columns), filters=filters or None)
    except (OSError, ArrowException, KeyError) as error:
        raise InputError(f"the table {path} cannot be read: {error}; install it again", got=str(path)) from None
    return {name: table.column(name).to_numpy() for name in columns}


@lru_cache(maxsize=256)
def values_of(path: Path, column: str) -> tuple[str, ...]:
    """Return the different texts of a column, in order."""
    return tuple(sorted(set(read_columns(path, [column], {})[column].tolist())))
