"""The runs of a sweep as a table for the terminal."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from clustersim.report.anchor import anchor_lines, without_anchor
from clustersim.report.answer import METRIC_COLUMNS, limits, real_tokens, rows, time_rows
from clustersim.report.band import band_lines
from clustersim.report.baselines import baseline_lines
from clustersim.report.failing import every_point, failing_table
from clustersim.report.findings import findings
from clustersim.report.learning_scale import learning_scale_lines
from clustersim.report.machine import IDEAL, is_ideal, machine
from clustersim.report.published import Comparison, compare
from clustersim.report.rate_words import SURER
from clustersim.report.series import series, varied
from clustersim.report.text_table import Row, TextTable
from clustersim.report.words import percent
from clustersim.results import Sweep

if TYPE_CHECKING:
    from rich.table import Table


def tables(sweep: Sweep, columns: int) -> list[Table | str]:
    """Return the runs as one table if it fits in `columns`, else as several; texts where no table is that narrow."""
    failing = failing_table(sweep)
    below = [] if failing is None else failing.parts(columns)
    if not sweep.ran:
        return below
    whole = _runs(sweep, shares=True)
    if whole.width() <= columns:
        return [*whole.parts(columns), *below]
    runs = _runs(sweep, shares=False)
    shares = replace(_shares(sweep), caption=runs.caption)
    return [*replace(runs, caption="").parts(columns), *shares.parts(columns), *below]


def table(sweep: Sweep) -> Table:
    """Return a rich table with one row per run, with the shares of its time: `rich.print(table(sweep))`.

    Below a run is what it would be without measured runs, and its published figures, each in the column of its metric,
    with the error of the forecast, forecast / published - 1. If only the number of GPUs varies it fits 80 columns.
    """
    return _runs(sweep, shares=True).rich()


def _runs(sweep: Sweep, shares: bool) -> TextTable:
    headings, body = rows(sweep)
    parts, found = time_rows(sweep) if shares else ([], [[] for _ in body])
    lines: list[Row] = []

    def add(texts: dict[str, str], style: str, label: str) -> None:
        cells = [label, *(texts.get(name, "") for name in headings[1:]), *("" for _ in parts)]
        lines.append(Row(tuple(cells), style))

    runs = [run for one in series(sweep) for run in one.runs]
    for run, cells, share in zip(runs, body, found, strict=True):
        lines.append(Row((*cells, *share)))
        if texts := without_anchor(run):
            add(texts, "dim", "no anchor")
        compared = [row for point in run.published if (row := compare(sweep, run, point))]
        for label, texts in _published_lines(compared):
            add(texts, "bold" if label == "error" else "dim", label)
    title = f"{sweep.name} ({IDEAL})" if is_ideal(sweep) else sweep.name
    caption = "\n".join((*findings(sweep), machine(sweep), *limits(sweep), *real_tokens(sweep)))
    return TextTable(title, (*headings, *parts), tuple(lines), _num_named(sweep), caption)


def _shares(sweep: Sweep) -> TextTable:
    """Return the time shares of each run."""
    named = _num_named(sweep)
    (headings, body), (parts, shares) = rows(sweep), time_rows(sweep)
    lines = (Row((*cells[:named], *share)) for cells, share in zip(body, shares, strict=True))
    return TextTable("time shares", (*headings[:named], *parts), tuple(lines), named)


def _num_named(sweep: Sweep) -> int:
    """Return the number of columns that say which point a row is."""
    return 1 + len(varied(every_point(sweep)))


def lines_below(sweep: Sweep) -> list[str]:
    """Return the lines of text below the table: what speedups are over, what bands rest on, and what is measured."""
    bands = band_lines(sweep)
    surer = [f"{SURER}: the forecasts of one sweep share most of their errors"] if bands and len(sweep.ran) > 1 else []
    return [*baseline_lines(sweep), *bands, *surer, *anchor_lines(sweep), *learning_scale_lines(sweep)]


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
