"""The runs of a sweep as a table for the terminal."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from clustersim.report.answer import METRIC_COLUMNS, rows, time_rows
from clustersim.report.published import Comparison, compare
from clustersim.report.series import series
from clustersim.report.words import THIN, percent
from clustersim.results import Sweep

if TYPE_CHECKING:
    from rich.table import Table


def table(sweep: Sweep) -> Table:
    """Return a rich table with a row for each run: `rich.print(table(sweep))`.

    Below a run stand the figures published for it, each in the column of its metric, and the error of the
    forecast, forecast / published - 1. Without other axes than the number of GPUs it fits 80 columns.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    headings, body = rows(sweep)
    parts, shares = time_rows(sweep)
    result = Table(title=Text(sweep.name), title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in [*headings, *parts]:
        result.add_column(heading, justify="right")
    runs = [run for one in series(sweep) for run in one.runs]
    for run, cells, share in zip(runs, body, shares, strict=True):
        result.add_row(*(Text(_plain(text)) for text in [*cells, *share]))
        compared = [row for point in run.published if (row := compare(sweep, run, point))]
        for label, texts in _published_lines(compared):
            style = "bold" if label == "error" else "dim"
            result.add_row(
                *(Text(_plain(text), style) for text in [label, *(texts.get(name, "") for name in headings[1:])])
            )
    return result


def _published_lines(compared: list[Comparison]) -> list[tuple[str, dict[str, str]]]:
    """Return lines of texts by column: published figures, and under them the errors, one of each metric a line."""
    by_metric: dict[str, list[Comparison]] = defaultdict(list)
    for row in compared:
        by_metric[row.metric].append(row)
    lines = []
    for number in range(max(map(len, by_metric.values()), default=0)):
        these = {METRIC_COLUMNS[name]: found[number] for name, found in by_metric.items() if number < len(found)}
        lines.append(("published", {column: row.published_text() for column, row in these.items()}))
        lines.append(("error", {column: percent(row.error, signed=True) for column, row in these.items()}))
    return lines


def _plain(text: str) -> str:
    return text.replace(f"{THIN}%", "%").replace(THIN, " ")
