"""A sweep as a CSV file: one row per run."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from clustersim.results import Sweep, write_atomically
from clustersim.results.rows import Cell, columns_of


def write_csv(sweep: Sweep, path: str | Path) -> Path:
    """Write the rows of `Sweep.to_rows`; missing values are empty. A name ending in .gz is compressed."""
    return write_rows(sweep.to_rows(), path)


def write_rows(rows: Sequence[Mapping[str, Cell]], path: str | Path) -> Path:
    """Write rows as a CSV file, with the columns of all of them; missing values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return write_atomically(path, text.getvalue())
