"""Jobs that share a cluster: iteration time of each, with the other jobs and alone."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend, names_over
from clustersim.report.palette import PARTS
from clustersim.report.series import axis_cells, axis_headings, run_label, series, setting, varied
from clustersim.report.text_table import Row, TextTable
from clustersim.report.words import count, duration, gpus, plot_text, shortened, time_unit, times
from clustersim.results import JobRun, Run, Sweep

MAX_ROWS = 32
"""Jobs that fit a screen; of more, those with the largest slowdown are shown."""


_SLOWED = 1.01
"""Slowdown from which on a job is called slowed down."""


@dataclass(frozen=True)
class Jobs:
    """The figure in numbers: jobs with their names and those of their runs, run by run; seconds."""

    title: str
    rows: tuple[tuple[str, JobRun], ...]
    note: str
    quiet: str


def jobs_data(sweep: Sweep, max_rows: int = MAX_ROWS) -> Jobs | None:
    """Return every job of every run that has several; None where no run has."""
    runs = [run for one in series(sweep) for run in one.runs if run.jobs]
    if not runs:
        return None
    sized = len({run.num_gpus for run in runs}) > 1
    rows = [
        (", ".join(filter(None, (job.name, run_label(sweep, run) if sized else setting(sweep, run)))), job)
        for run in runs
        for job in run.jobs
    ]
    kept = sorted(sorted(range(len(rows)), key=lambda place: -rows[place][1].slowdown)[:max_rows])
    note = (
        f"The {max_rows} of {count(len(rows))} jobs with the largest slowdown are shown."
        if len(kept) < len(rows)
        else ""
    )
    slowed = any(job.slowdown >= _SLOWED for _, job in rows)
    quiet = "" if slowed else f"{_title(runs, rows)}."
    return Jobs(_title(runs, rows), tuple(rows[place] for place in kept), note if len(kept) < len(rows) else "", quiet)


def _title(runs: list[Run], rows: list[tuple[str, JobRun]]) -> str:
    label, job = max(rows, key=lambda row: row[1].slowdown)
    if job.slowdown < _SLOWED:
        return "No job is slowed down by another by 1 % or more"
    others = len(runs[0].jobs) - 1
    beside = "the other job" if others == 1 else f"the {count(others)} other jobs"
    where = label.removeprefix(job.name).removeprefix(", ")
    title = f"With {beside}, {job.name} takes {times(job.slowdown)} as long as alone"
    if len(runs) == 1:
        return title
    best = min(runs, key=lambda run: max(one.slowdown for one in run.jobs))
    least = max(one.slowdown for one in best.jobs)
    other = next(name for name, one in rows if one is best.jobs[0]).removeprefix(best.jobs[0].name).removeprefix(", ")
    most = "no job is slowed down" if least < _SLOWED else f"no job takes more than {times(least)}"
    return f"{title} ({where}); with {other}, {most}"


def draw_jobs(data: Jobs) -> Figure:
    """Draw one row per job: an open marker for its iteration alone, a filled one for that with the others."""
    unit, factor = time_unit(max(job.iteration_s for _, job in data.rows))
    places = list(range(len(data.rows)))
    lines: dict[str, list[float | None]] = {"x": [], "y": []}
    for place, (_, job) in enumerate(data.rows):
        lines["x"] += [job.alone_iteration_s / factor, job.iteration_s / factor, None]
        lines["y"] += [place, place, None]
    line = {"width": 4, "color": PARTS["waiting"]}
    traces: list[Json] = [
        {"type": "scatter", "mode": "lines", **lines, "line": line, "hoverinfo": "skip", "showlegend": False},
        _markers(data, "alone", [job.alone_iteration_s / factor for _, job in data.rows], "circle-open"),
        _markers(data, "with the others", [job.iteration_s / factor for _, job in data.rows], "circle"),
    ]
    longest = max(max(job.iteration_s, job.alone_iteration_s) for _, job in data.rows) / factor
    drawn = layout(
        110 + 34 * len(places),
        xaxis=axis(f"one iteration ({unit})", range=[0, 1.15 * longest]),
        yaxis=axis(
            tickvals=places,
            ticktext=[plot_text(shortened(label, 40)) for label, _ in data.rows],
            range=[len(places) - 0.4, -0.6],
            fixedrange=True,
        ),
        showlegend=True,
        legend=legend(),
    )
    under = f"One iteration of each job on the shared cluster ({unit}), with the others and alone; labels: slowdown."
    narrow = {
        **names_over([label for label, _ in data.rows]),
        "xaxis": {"range": [0, 1.25 * longest], "nticks": 5},
        "height": 140 + 44 * len(places),
    }
    return Figure(data.title, under, traces, drawn, narrow, note=data.note, quiet=data.quiet)


def _markers(data: Jobs, name: str, values: list[float], symbol: str) -> Json:
    filled = symbol == "circle"
    return {
        "type": "scatter",
        "mode": "markers+text" if filled else "markers",
        "name": name,
        "x": values,
        "y": list(range(len(values))),
        **({"text": [f"  {times(job.slowdown)}" for _, job in data.rows], "textposition": "middle right"}
           if filled else {}),
        "cliponaxis": False,
        "hovertext": [_hover(label, job) for label, job in data.rows],
        "hoverinfo": "text",
        "marker": {"size": 11, "symbol": symbol, "color": "@ink", "line": {"width": 2, "color": "@ink"}},
    }  # fmt: skip


def _hover(label: str, job: JobRun) -> str:
    return (
        f"<b>{plot_text(label)}</b><br>{plot_text(job.model)} on {gpus(job.num_gpus)}, {count(job.samples_per_s)} "
        f"samples/s<br>{duration(job.iteration_s)} with the others, {duration(job.alone_iteration_s)} alone"
    )


def job_rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return headings and one row per job of each run that has several; no rows where no run has."""
    axes_of = axis_cells(sweep)
    headings = ["job", *axis_headings(varied(sweep)), "GPUs", "iteration", "alone", "slowdown"]
    body = [
        [
            job.name,
            *axes_of(run),
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


def job_table(sweep: Sweep) -> TextTable | None:
    """Return `job_rows` as a table for the terminal; None where no run has several jobs."""
    headings, body = job_rows(sweep)
    if not body:
        return None
    rows = tuple(Row(tuple(cells)) for cells in body)
    title = "jobs: iteration with the others, and alone"
    return TextTable(title, tuple(headings), rows, headings.index("GPUs"), left=frozenset(["job"]))
