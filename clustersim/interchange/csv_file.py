"""A sweep as a CSV file: one row per run."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from clustersim.results import Sweep, write_atomically
from clustersim.results.rows import columns_of


def write_csv(sweep: Sweep, path: str | Path) -> Path:
    """Write the rows of `Sweep.to_rows`; missing values are empty. A name ending in .gz is compressed."""
    rows = sweep.to_rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return write_atomically(path, text.getvalue())
