"""Table of a long training with failures: time shares, and four checkpoint intervals side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustersim.report.series import axis_cell, axis_headings, series, varied
from clustersim.report.words import THIN, count, duration, percent
from clustersim.results import Run, Sweep

if TYPE_CHECKING:
    from rich.table import Table

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
    return headings, [_row(run, keys) for run in runs]


def _row(run: Run, keys: Sequence[str]) -> list[str]:
    times = run.failures
    if times is None:
        return []
    return [
        count(run.num_gpus),
        *(axis_cell(key, run.axes.get(key)) for key in keys),
        duration(times.total_s),
        count(times.num_failures),
        *(percent(getattr(times, column) / times.total_s) for column in _PARTS.values()),
        *(duration(getattr(times, column)) for column in _INTERVALS.values()),
    ]


def failure_table(sweep: Sweep) -> Table | None:
    """Return `failure_rows` as a rich table; None where no run has failures."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    headings, body = failure_rows(sweep)
    if not body:
        return None
    title = Text("failures: shares of the training time, and checkpoint intervals (useful time)")
    result = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in headings:
        result.add_column(heading, justify="right", no_wrap=True)
    for cells in body:
        result.add_row(*(Text(cell.replace(f"{THIN}%", "%").replace(THIN, " ")) for cell in cells))
    return result
