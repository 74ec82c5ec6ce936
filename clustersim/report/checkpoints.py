"""Checkpoint interval: total training time against the useful time between two checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustersim.report.failure_time import calendar_unit
from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import series_colour
from clustersim.report.series import run_label
from clustersim.report.words import THIN, count, duration, percent
from clustersim.results import Run, Sweep


@dataclass(frozen=True)
class CheckpointInterval:
    """Total training time against the checkpoint interval, in seconds.

    `expected_s` is the closed form for exponential failures. `marks` are named intervals, each with its total training
    time, interpolated from the simulated ones.
    """

    title: str
    run: str
    interval_s: list[float]
    total_s: list[float]
    expected_s: list[float | None]
    marks: dict[str, tuple[float, float]]


def checkpoint_interval_data(sweep: Sweep, run: Run) -> CheckpointInterval | None:
    """Return training time against interval; None where the run compared fewer than three intervals."""
    times = run.failures
    rows = sorted(times.intervals) if times is not None else []
    if times is None or len(rows) < 3:
        return None
    spans, totals = [row[0] for row in rows], [row[1] for row in rows]
    named = {"Young": times.young_s, "Daly": times.daly_s, "best": times.best_s, "as simulated": times.interval_s}
    marks = {
        name: (each_s, float(np.interp(np.log(each_s), np.log(spans), totals)))
        for name, each_s in named.items()
        if spans[0] <= each_s <= spans[-1]
    }
    least = min(totals)
    simulated = marks.get("as simulated", (times.interval_s, totals[-1]))[1]
    longer = simulated / least - 1.0
    title = (
        f"A checkpoint every {duration(times.best_s)} is best; the simulated interval, {duration(times.interval_s)}, "
    )
    title += f"makes the training {percent(longer)} longer" if longer > 0.0005 else "is as good"
    return CheckpointInterval(title, run_label(sweep, run), spans, totals, [row[2] for row in rows], marks)


def draw_checkpoint_interval(data: CheckpointInterval) -> Figure:
    """Draw the total training time against the useful time between checkpoints, with the named intervals."""
    unit, factor = calendar_unit(max(data.total_s))
    line: Json = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "simulated",
        "x": data.interval_s,
        "y": [total / factor for total in data.total_s],
        "line": {"color": series_colour(0), "width": 2.2},
        "marker": {"size": 5, "color": series_colour(0)},
        "hovertext": [
            f"checkpoint every {duration(each_s)}<br>training takes {duration(total)}"
            for each_s, total in zip(data.interval_s, data.total_s, strict=True)
        ],
        "hoverinfo": "text",
    }
    traces = [line, *_expected(data, factor), *(_mark(data, name, number, factor)
                                               for number, name in enumerate(data.marks))]  # fmt: skip
    drawn = layout(
        340,
        xaxis=axis("useful time between checkpoints", type="log", **_time_ticks(data.interval_s), showgrid=True),
        yaxis=axis(f"total training time ({unit})"),
        showlegend=True,
        legend=legend(),
    )
    closed = "; dashed: expected value for exponential failures" if any(data.expected_s) else ""
    under = f"Total training time ({unit}) against the checkpoint interval: {data.run}{closed}."
    return Figure(data.title, under, traces, drawn, {"xaxis": _time_ticks(data.interval_s, 5)}, label=data.run)


def _expected(data: CheckpointInterval, factor: float) -> list[Json]:
    known = [(each, total) for each, total in zip(data.interval_s, data.expected_s, strict=True) if total is not None]
    if not known:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "expected",
            "x": [each for each, _ in known],
            "y": [total / factor for _, total in known],
            "line": {"color": "@muted", "dash": "dash", "width": 1.5},
            "hoverinfo": "skip",
        }
    ]


def _mark(data: CheckpointInterval, name: str, number: int, factor: float) -> Json:
    each_s, total_s = data.marks[name]
    symbols = ("triangle-up-open", "diamond-open", "star-open", "circle-open")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{name}: {duration(each_s)}",
        "x": [each_s],
        "y": [total_s / factor],
        "hovertext": [f"<b>{name}</b>: every {duration(each_s)}<br>training takes {duration(total_s)}"],
        "hoverinfo": "text",
        "marker": {"symbol": symbols[number], "size": 13, "color": "@ink", "line": {"width": 2, "color": "@ink"}},
    }


def _time_ticks(spans: list[float], most: int = 16) -> Json:
    """Return ticks of a logarithmic axis at round times, at most `most` of them."""
    minute, hour, day = 60.0, 3600.0, 86_400.0
    round_s = [1, 2, 5, 10, 20, 30, *(k * minute for k in (1, 2, 5, 10, 20, 30))]
    round_s += [*(k * hour for k in (1, 2, 4, 8, 12)), *(k * day for k in (1, 2, 5, 10, 20, 50, 100))]
    chosen = [each for each in round_s if spans[0] * 0.99 <= each <= spans[-1] * 1.01]
    if len(chosen) < 2:
        return {}
    chosen = chosen[:: -(-len(chosen) // most)]
    return {"tickvals": chosen, "ticktext": [_round(each) for each in chosen]}


def _round(seconds: float) -> str:
    """Write a round time, such as `5 min`.

    >>> _round(300.0).replace(THIN, " ")
    '5 min'
    """
    units = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
    name, factor = next((name, factor) for name, factor in units if seconds >= factor or factor == 1.0)
    return f"{count(seconds / factor)}{THIN}{name}"
