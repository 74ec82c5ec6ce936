"""Table of a long training with failures: time shares, and four checkpoint intervals side by side."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.report.series import axis_cells, axis_headings, series, varied
from clustersim.report.text_table import Row, TextTable
from clustersim.report.words import count, duration, percent
from clustersim.results import Run, Sweep

_PARTS = {"useful": "useful_s", "saving": "checkpoint_s", "lost": "lost_s", "restart": "restart_s"}
_INTERVALS = {"interval": "interval_s", "Young": "young_s", "Daly": "daly_s", "best": "best_s"}


def failure_rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return headings and one row per run that has failures; no rows where none has.

    Total time and number of failures, then shares of the time, then the useful time between checkpoints: the simulated
    interval, that of Young's formula, that of Daly's, and the best one simulated.
    """
    keys = varied(sweep)
    runs = [run for one in series(sweep) for run in one.runs if run.failures is not None]
    headings = ["GPUs", *axis_headings(keys), "total", "failures", *_PARTS, *_INTERVALS]
    axes_of = axis_cells(sweep)
    return headings, [_row(run, axes_of(run)) for run in runs]


def _row(run: Run, axes: Sequence[str]) -> list[str]:
    times = run.failures
    if times is None:
        return []
    return [
        count(run.num_gpus),
        *axes,
        duration(times.total_s),
        count(times.num_failures),
        *(percent(getattr(times, column) / times.total_s) for column in _PARTS.values()),
        *(duration(getattr(times, column)) for column in _INTERVALS.values()),
    ]


def failure_table(sweep: Sweep) -> TextTable | None:
    """Return `failure_rows` as a table for the terminal; None where no run has failures."""
    headings, body = failure_rows(sweep)
    if not body:
        return None
    title = "failures: shares of the training time, and checkpoint intervals (useful time)"
    return TextTable(title, tuple(headings), tuple(Row(tuple(cells)) for cells in body), headings.index("total"))
