"""The runs of a sweep as a table for the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustersim.report.anchor import anchor_lines, without_anchor
from clustersim.report.answer import METRIC_COLUMNS, limits, rows, time_rows
from clustersim.report.band import band_lines
from clustersim.report.machine import IDEAL, is_ideal, machine
from clustersim.report.published import Comparison, compare
from clustersim.report.series import series, varied
from clustersim.report.words import THIN, percent
from clustersim.results import Sweep

if TYPE_CHECKING:
    from rich.table import Table

_UNLIMITED = 10_000
"""More columns than any table has."""


def tables(sweep: Sweep, columns: int) -> list[Table]:
    """Return the runs as one table if it fits in `columns`; otherwise the time shares are a second table."""
    from rich.console import Console

    whole = table(sweep)
    if Console(width=_UNLIMITED).measure(whole).maximum <= columns:
        return [whole]
    return [table(sweep, shares=False), share_table(sweep)]


def table(sweep: Sweep, shares: bool = True) -> Table:
    """Return a rich table with one row per run, with the shares of its time: `rich.print(table(sweep))`.

    Below a run is what it would be without measured runs, and its published figures, each in the column of its metric,
    with the error of the forecast, forecast / published - 1. If only the number of GPUs varies it fits 80 columns.
    """
    from rich.text import Text

    headings, body = rows(sweep)
    parts, found = time_rows(sweep) if shares else ([], [[] for _ in body])
    title = f"{sweep.name} ({IDEAL})" if is_ideal(sweep) else sweep.name
    result = _table(title, [*headings, *parts], varied(sweep))
    result.caption, result.caption_justify = Text(plain("\n".join((machine(sweep), *limits(sweep))))), "left"
    runs = [run for one in series(sweep) for run in one.runs]
    for run, cells, share in zip(runs, body, found, strict=True):
        result.add_row(*(Text(plain(text)) for text in [*cells, *share]))
        if texts := without_anchor(run):
            cells = ["no anchor", *(texts.get(name, "") for name in headings[1:])]
            result.add_row(*(Text(plain(text), "dim") for text in cells))
        compared = [row for point in run.published if (row := compare(sweep, run, point))]
        for label, texts in _published_lines(compared):
            style = "bold" if label == "error" else "dim"
            result.add_row(
                *(Text(plain(text), style) for text in [label, *(texts.get(name, "") for name in headings[1:])])
            )
    return result


def share_table(sweep: Sweep) -> Table:
    """Return a rich table of the time shares of each run."""
    from rich.text import Text

    keys = varied(sweep)
    (headings, body), (parts, shares) = rows(sweep), time_rows(sweep)
    named = 1 + len(keys)
    result = _table("time shares", [*headings[:named], *parts], keys)
    for cells, share in zip(body, shares, strict=True):
        result.add_row(*(Text(plain(text)) for text in [*cells[:named], *share]))
    return result


def lines_below(sweep: Sweep) -> list[str]:
    """Return the lines of text below the table: what bands rest on, and the measured runs that anchor the forecast."""
    return [plain(line) for line in (*band_lines(sweep), *anchor_lines(sweep))]


def _table(title: str, headings: list[str], keys: Sequence[str]) -> Table:
    """Return an empty table in which only the columns of axes wrap, and none is cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    result = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for number, heading in enumerate(headings):
        is_axis = 0 < number <= len(keys)
        result.add_column(heading, justify="right", no_wrap=not is_axis, overflow="fold")
    return result


def _published_lines(compared: list[Comparison]) -> list[tuple[str, dict[str, str]]]:
    """Return lines of texts by column: published figures and below them their errors, one per metric and line."""
    by_metric: dict[str, list[Comparison]] = defaultdict(list)
    for row in compared:
        by_metric[row.metric].append(row)
    lines = []
    for number in range(max(map(len, by_metric.values()), default=0)):
        these = {METRIC_COLUMNS[name]: found[number] for name, found in by_metric.items() if number < len(found)}
        lines.append(("published", {column: row.published_text() for column, row in these.items()}))
        lines.append(("error", {column: percent(row.error, signed=True) for column, row in these.items()}))
    return lines


def plain(text: str) -> str:
    """Return a text for the terminal, with ordinary spaces."""
    return text.replace(f"{THIN}%", "%").replace(THIN, " ")
