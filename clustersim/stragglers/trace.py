"""Measured factors: iteration times in a column of a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError, Mistake
from clustersim.stragglers.distribution import Distribution
from clustersim.units import Duration

_MOST_BYTES = 100_000_000
_SHOWN = 60


class TraceStraggler(Distribution):
    """Measured times divided by their mean, as factors.

    `resampled` draws them at random, independently unless a correlation is given: the empirical
    distribution. `in-order` takes the rows from the first on, the same rows for all affected ranks; `shifted`
    starts at a random row for each rank. Both start again after the last row.
    """

    kind: Literal["trace"]
    file: str = Field(min_length=1, description="CSV file with a line of column names, then one row per time")
    column: str | None = Field(default=None, description="the column with the times; optional if it is the only one")
    order: Literal["resampled", "in-order", "shifted"] = Field(
        default="resampled",
        description="drawn at random, or in the order of the rows, from the first or a random one",
    )
    relative_to: Literal["mean"] | Duration = Field(
        default="mean",
        description="the time with a factor of 1: the mean of the column, or, for a column in seconds, a duration such "
        "as '85 ms'",
    )

    @model_validator(mode="after")
    def _correlated_only_if_drawn(self) -> Self:
        correlated = self.rho or self.correlation_iterations is not None or self.host_correlation
        if correlated and self.order != "resampled":
            raise InputError(
                f"rows in the order {self.order} keep their measured correlation; leave rho, "
                "correlation_iterations and host_correlation out, or give order: resampled",
                got=self.order,
                allowed="resampled",
            )
        if self.relative_to != "mean" and self.relative_to <= 0:
            raise InputError("relative_to must be longer than 0 s (got 0 s)", got="0 s", allowed="more than 0 s")
        return self

    def measured(self) -> np.ndarray:
        """Return the factors in the file, in the order of its rows [num_rows]."""
        times = read_column(self.file, self.column)
        return times / (times.mean() if self.relative_to == "mean" else self.relative_to)

    def factors(self, z: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        ordered = np.sort(self.measured())
        rows = np.minimum((ndtr(z) * len(ordered)).astype(np.int64), len(ordered) - 1)
        drawn: np.ndarray = ordered[rows]
        return drawn

    def draw(
        self, own: np.random.Generator, shared: Callable[[], np.random.Generator], size: int, per_iteration: int = 1
    ) -> np.ndarray:
        """Return [size] measured factors: drawn, or rows in order from the first or from a random row of this rank."""
        if self.order == "resampled":
            return super().draw(own, shared, size, per_iteration)
        measured = self.measured()
        first = int(own.integers(len(measured))) if self.order == "shifted" else 0
        drawn: np.ndarray = measured[(first + np.arange(size)) % len(measured)]
        return drawn


def read_column(file: str, column: str | None) -> np.ndarray:
    """Return the positive numbers in a column of a CSV file [num_rows].

    Empty lines and lines that start with # are skipped. Every cell that is not a number is reported with its line.
    """
    path = Path(file)
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"the trace '{file[:200]}' cannot be read: {reason}", got=file[:200]) from None
    return _column(str(path), column, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _column(file: str, column: str | None, changed_ns: int) -> np.ndarray:
    text = _text(file)
    lines, rows = text.splitlines(), csv.reader(io.StringIO(text))
    header: list[str] | None = None
    number = -1
    times: list[float] = []
    mistakes: list[Mistake] = []
    for row in rows:
        if not "".join(row).strip() or row[0].lstrip().startswith("#"):
            continue
        if header is None:
            header = [name.strip() for name in row]
            number = _number(file, rows.line_num, lines[rows.line_num - 1], header, column)
            continue
        time, reason = _time(row, number)
        times.append(time)
        if reason:
            line = lines[rows.line_num - 1]
            place = file, rows.line_num, _start(line, number), _cell(row, number), "a time above 0", line[:_SHOWN]
            mistakes.append(Mistake(reason, header[number], *place))
    if mistakes:
        raise InputError(mistakes)
    if not times:
        raise InputError(Mistake("the trace has no rows; give one time per row below the column names", file=file))
    column_s = np.array(times)
    column_s.setflags(write=False)
    return column_s


def _text(file: str) -> str:
    try:
        with open(file, "rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"the trace '{file}' cannot be read: {error.strerror}", got=file) from None
    if len(data) > _MOST_BYTES:
        raise InputError(Mistake("the trace is too large; at most 100 MB", file=file, allowed="at most 100 MB"))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(Mistake("this is not text in UTF-8; is it a binary file?", None, file, line)) from None


def _number(file: str, number: int, line: str, header: list[str], column: str | None) -> int:
    """Return the number of the column, or raise an `InputError` for an unknown or missing name."""
    known = ", ".join(header)
    if column is None and len(header) > 1:
        message = f"the trace has several columns; give 'column', one of {known}"
        raise InputError(Mistake(message, "column", file, number, 1, "nothing", known, line[:_SHOWN]))
    if column is not None and column not in header:
        message = f"the trace has no column '{column}' (known: {known})"
        raise InputError(Mistake(message, "column", file, number, 1, column, known, line[:_SHOWN]))
    return 0 if column is None else header.index(column)


def _start(line: str, number: int) -> int:
    """Return the column where a cell starts in its line, from 1; the end of the line if the cell is missing.

    >>> _start('"a,b", 3', 1), _start("4", 2)
    (8, 2)
    """
    is_quoted, commas = False, 0
    for place, char in enumerate(line):
        if commas == number and char != " ":
            return place + 1
        is_quoted ^= char == '"'
        commas += char == "," and not is_quoted
    return len(line) + 1


def _cell(row: list[str], number: int) -> str:
    return row[number].strip()[:_SHOWN] if number < len(row) else "nothing"


def _time(row: list[str], number: int) -> tuple[float, str]:
    """Return the time in a row, and an error text that is empty if the time is valid."""
    cell = _cell(row, number)
    try:
        time = float(cell)
    except ValueError:
        return math.nan, f"expected a time, a number above 0 (got '{cell}')"
    if not 0 < time < math.inf:
        return math.nan, f"a time must be above 0 and finite (got {cell})"
    return time, ""
