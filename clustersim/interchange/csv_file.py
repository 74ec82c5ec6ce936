"""A sweep as a CSV file: one row per run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from clustersim.results import Sweep
from clustersim.results.files import write_pieces
from clustersim.results.rows import Cell, columns_of


class HasRows(Protocol):
    """A sweep whose rows need not be in memory all at once: each call yields them again."""

    def rows(self) -> Iterator[dict[str, Cell]]:
        """Yield each run as flat columns."""


def rows_in(sweep: Sweep | HasRows) -> Iterable[dict[str, Cell]]:
    """Return the rows of a sweep, one by one where it has them so."""
    return sweep.to_rows() if isinstance(sweep, Sweep) else sweep.rows()


def write_csv(sweep: Sweep | HasRows, path: str | Path) -> Path:
    """Write the rows of `Sweep.to_rows`; missing values are empty. A name ending in .gz is compressed."""
    return write_pieces(path, _lines(rows_in(sweep), columns_of(rows_in(sweep))))


def write_rows(rows: Sequence[Mapping[str, Cell]], path: str | Path) -> Path:
    """Write rows as a CSV file, with the columns of all of them; missing values are empty."""
    return write_pieces(path, _lines(rows, columns_of(rows)))


def _lines(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str]) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(row)
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()
