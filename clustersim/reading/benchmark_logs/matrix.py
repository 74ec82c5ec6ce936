"""Tables of numbers with GPUs as rows and columns, in the format of NVIDIA's copy benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clustersim.reading.benchmark_logs.measurement import Line, Text


@dataclass(frozen=True)
class Cell:
    """A value of a matrix with its row and column numbers, and its line."""

    row: int
    column: int
    value: float
    line: int


def read_matrix(text: Text, first: int, num_rows: int | None = None) -> list[Cell]:
    """Return the cells of the matrix whose line of column numbers has index `first` in the text's lines.

    Words before the column numbers are ignored; `N/A` is not a cell. There are as many rows as columns, or
    `num_rows`. A line with fewer values than columns, or too few lines, is a truncated log.
    """
    heading = text.lines[first]
    columns = [int(token) for token in heading.text.split() if token.isdecimal()]
    rows = text.lines[first + 1 : first + 1 + (num_rows or len(columns))]
    if len(rows) < (num_rows or len(columns)):
        last = text.lines[-1].number
        raise text.mistake(last, f"the log ends inside a matrix of {len(columns)} columns; it is truncated")
    return [cell for line in rows for cell in _cells(text, line, columns)]


def _cells(text: Text, line: Line, columns: Sequence[int]) -> Iterator[Cell]:
    tokens = line.text.split()
    if len(tokens) != 1 + len(columns) or not tokens[0].isdecimal():
        message = (
            f"expected a GPU's number and {len(columns)} values (got '{line.text.strip()[:60]}'): truncated, or mixed"
        )
        raise text.mistake(line.number, message, line.text.strip()[:60], f"{1 + len(columns)} numbers")
    for column, figure in zip(columns, tokens[1:], strict=True):
        if figure != "N/A":
            yield Cell(int(tokens[0]), column, text.number(line, figure, "a figure of the matrix"), line.number)
