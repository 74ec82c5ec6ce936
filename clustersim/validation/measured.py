"""Reads `measured.csv`: measured figures, the scenario point of each, and its source; and tables of points to forecast.

A row has a metric, its value and unit, a role, a provenance and the place of the figure in its source. Every other
column is a key of the scenario, dotted as for `--set`, which selects the point of the scenario; an empty cell leaves
the key as the scenario has it. A table of points has the same columns without value, role, provenance and place.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake
from clustersim.reading.files import read_text
from clustersim.validation.metrics import units_of

ROLES = ("calibration", "prediction")
"""A calibration figure is an input of its case, shown and never scored; a prediction is not an input."""

PROVENANCES = ("read", "recalled", "stated")
"""`read` in the source that the row names; `recalled` only; or `stated` by its source without a measurement. Only
figures that were read are scored."""

_OF_POINTS = ("metric", "unit")
_OF_FIGURES = ("value", "role", "provenance", "where")
_OPTIONAL = ("scenario", "label", "note")


@dataclass(frozen=True)
class TableCell:
    """A text of the table and its place; `line` and `column` count from 1."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One point of a scenario and a metric; `settings` are keys of the scenario in the order of the columns."""

    scenario: str
    settings: tuple[tuple[str, str], ...]
    metric: str
    unit: str
    label: str
    note: str
    file: str
    line: int
    columns: tuple[tuple[str, int], ...]

    @property
    def overrides(self) -> list[str]:
        """The settings as arguments of `--set`."""
        return [f"{key}={value}" for key, value in self.settings]

    def mistake(
        self, message: str, key: str | None = None, got: str | None = None, allowed: str | None = None
    ) -> Mistake:
        """Return a mistake in this row, in the column of its key if the row has one."""
        where = dict(self.columns)
        column = next((where[name] for name in where if key and (key == name or key.startswith(f"{name}."))), 1)
        return Mistake(message, key, self.file, self.line, column, got, allowed)


@dataclass(frozen=True, kw_only=True)
class Measured(TableRow):
    """One measured figure of a point; `value` is in `unit`."""

    value: float
    role: str
    provenance: str
    where: str


def read_measured(path: Path) -> tuple[Measured, ...]:
    """Return every row of a `measured.csv`, or raise an `InputError` with every mistake in it."""
    return tuple(row for row in _read(path, has_figures=True) if isinstance(row, Measured))


def read_points(path: Path) -> tuple[TableRow, ...]:
    """Return every row of a table of points without figures, or raise an `InputError` with every mistake in it."""
    return _read(path, has_figures=False)


def _read(path: Path, has_figures: bool) -> tuple[TableRow, ...]:
    rows = list(_cells(read_text(path)))
    if not rows:
        raise InputError(Mistake("the file is empty; the first line must name the columns", file=str(path)))
    table = _Table(str(path), [cell.text for cell in rows[0]], has_figures)
    table.check_header(rows[0])
    if table.mistakes:
        raise InputError(table.mistakes)
    found = [table.row(cells) for cells in rows[1:]]
    if not found:
        table.mistakes.append(Mistake("the table has no rows below the column names", file=str(path), line=1))
    if table.mistakes:
        raise InputError(table.mistakes)
    return tuple(row for row in found if row is not None)


class _Table:
    """The columns of one file, and the mistakes found so far."""

    def __init__(self, file: str, names: list[str], has_figures: bool):
        self.file = file
        self.names = names
        self.has_figures = has_figures
        self.required = (*_OF_POINTS, *_OF_FIGURES) if has_figures else _OF_POINTS
        self.mistakes: list[Mistake] = []

    def check_header(self, cells: list[TableCell]) -> None:
        """Note what is wrong with the names of the columns."""
        for cell in cells:
            if not cell.text:
                self.wrong(cell, None, "the column has no name", "''", "a fixed column, or a key of the scenario")
            elif self.names.count(cell.text) > 1:
                self.wrong(cell, cell.text, "there are two columns with this name; keep one", cell.text)
            elif not self.has_figures and cell.text in _OF_FIGURES:
                message = "a table of points to forecast has no figures; leave this column out"
                self.wrong(cell, cell.text, message, cell.text, ", ".join((*self.required, *_OPTIONAL)))
        for name in self.required:
            if name not in self.names:
                near = get_close_matches(name, self.names, n=1)
                hint = f" (is '{near[0]}' meant?)" if near else ""
                allowed = (
                    f"the columns {', '.join(self.required)}; also {', '.join(_OPTIONAL)} and keys of the scenario"
                )
                self.wrong(cells[-1], name, f"there is no column '{name}'{hint}", None, allowed)

    def row(self, cells: list[TableCell]) -> TableRow | None:
        """Return the point or figure of one line; None if it has mistakes, which are collected."""
        if len(cells) != len(self.names):
            message = (
                f"{len(cells)} values in a table of {len(self.names)} columns; quote a value that contains a comma"
            )
            self.wrong(
                cells[min(len(cells), len(self.names)) - 1], None, message, str(len(cells)), str(len(self.names))
            )
            return None
        before = len(self.mistakes)
        by_name = dict(zip(self.names, cells, strict=True))
        value = self.figure(by_name) if self.has_figures else None
        self.metric(by_name["metric"], by_name["unit"])
        if len(self.mistakes) > before:
            return None
        keys = [name for name in self.names if name not in (*self.required, *_OPTIONAL)]
        fixed = {name: cell.text for name, cell in by_name.items() if name not in keys and name != "value"}
        common: dict[str, Any] = {
            "scenario": fixed.pop("scenario", "") or "scenario",
            "label": fixed.pop("label", ""),
            "note": fixed.pop("note", ""),
            "settings": tuple((key, by_name[key].text) for key in keys if by_name[key].text),
            "file": self.file,
            "line": cells[0].line,
            "columns": tuple((name, cell.column) for name, cell in by_name.items()),
            **fixed,
        }
        return TableRow(**common) if value is None else Measured(value=value, **common)

    def figure(self, by_name: Mapping[str, TableCell]) -> float | None:
        """Return the value of a figure; check its role, its provenance and its source."""
        value = self.number(by_name["value"])
        self.known(by_name["role"], "role", ROLES)
        self.known(by_name["provenance"], "provenance", PROVENANCES)
        if not by_name["where"].text:
            self.wrong(by_name["where"], "where", "the figure has no source; give its place in the source", "''")
        return value

    def number(self, cell: TableCell) -> float | None:
        """Return the figure of a cell; None, and a mistake, if it is not a number above 0."""
        try:
            value = float(cell.text)
        except ValueError:
            value = math.nan
        if math.isfinite(value) and value > 0:
            return value
        self.wrong(
            cell, "value", f"expected a number above 0 (got '{cell.text[:60]}')", cell.text[:60], "a number above 0"
        )
        return None

    def known(self, cell: TableCell, key: str, allowed: tuple[str, ...]) -> None:
        if cell.text not in allowed:
            names = ", ".join(allowed)
            self.wrong(cell, key, f"expected one of {names} (got '{cell.text[:60]}')", cell.text[:60], names)

    def metric(self, metric: TableCell, unit: TableCell) -> None:
        """Note a metric that does not exist, or a unit that is not one of the metric's."""
        try:
            units = units_of(metric.text)
        except InputError as error:
            self.wrong(metric, "metric", error.mistakes[0].message, metric.text, error.mistakes[0].allowed)
            return
        if unit.text not in units:
            names = ", ".join(units)
            message = f"'{metric.text}' is not measured in '{unit.text[:60]}' (units: {names})"
            self.wrong(unit, "unit", message, unit.text[:60], names)

    def wrong(
        self, cell: TableCell, key: str | None, message: str, got: str | None, allowed: str | None = None
    ) -> None:
        self.mistakes.append(Mistake(message, key, self.file, cell.line, cell.column, got, allowed))


def _cells(text: str) -> Iterator[list[TableCell]]:
    """Yield the cells of each line that is not empty, each with the column of its first character."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        values = next(csv.reader([line], skipinitialspace=True))
        cells, column = [], 1
        for value in values:
            start = column + len(line[column - 1 :]) - len(line[column - 1 :].lstrip(" "))
            cells.append(TableCell(value.strip(), number, min(start, len(line))))
            column = _after(line, start)
        yield cells


def _after(line: str, start: int) -> int:
    """Return the column after the comma that ends the value at column `start`."""
    place, quoted = start - 1, False
    while place < len(line) and (quoted or line[place] != ","):
        quoted ^= line[place] == '"'
        place += 1
    return place + 2
