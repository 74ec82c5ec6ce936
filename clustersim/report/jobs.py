"""Jobs that share a cluster: how each fares beside the others and alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clustersim.report.series import axis_value, series, varied
from clustersim.report.words import THIN, count, duration
from clustersim.results import Sweep

if TYPE_CHECKING:
    from rich.table import Table


def job_rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for each job of each run that has several; no rows where none has."""
    keys = varied(sweep)
    headings = ["job", *(key.rpartition(".")[2] for key in keys), "GPUs", "iteration", "alone", "slowdown"]
    body = [
        [
            job.name,
            *(axis_value(key, run.axes.get(key)) for key in keys),
            count(job.num_gpus),
            duration(job.iteration_s),
            duration(job.alone_iteration_s),
            f"{job.slowdown:.2f}×",
        ]
        for one in series(sweep)
        for run in one.runs
        for job in run.jobs
    ]
    return headings, body


def job_table(sweep: Sweep) -> Table | None:
    """Return `job_rows` as a rich table; None where no run has several jobs."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    headings, body = job_rows(sweep)
    if not body:
        return None
    title = Text("jobs: an iteration together, and alone")
    result = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in headings:
        result.add_column(heading, justify="left" if heading == "job" else "right", no_wrap=True)
    for cells in body:
        result.add_row(*(Text(cell.replace(THIN, " ")) for cell in cells))
    return result
