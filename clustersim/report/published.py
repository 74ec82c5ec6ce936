"""Forecast against published figures: the error of each point."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from clustersim.report.figure import Figure, Json, axis, layout
from clustersim.report.series import run_label
from clustersim.report.words import THIN, count, percent, plot_text, times
from clustersim.results import PublishedFigure, Run, Sweep

METRICS = {"hours": "time to train", "speedup": "speedup", "samples_per_s": "samples/s", "efficiency": "efficiency"}
"""Label of each metric of a published point."""


@dataclass(frozen=True)
class Comparison:
    """One published figure and its forecast, in the unit of the metric.

    `error` is forecast / published - 1. `gain` is published / forecast in terms of speed, whatever the metric: forecast
    speedup times `gain` is the published point on the speedup axis.
    """

    run: str
    num_gpus: int
    metric: str
    published: float
    forecast: float
    error: float
    gain: float
    source: str
    note: str

    def published_text(self) -> str:
        return in_unit(self.metric, self.published)

    def forecast_text(self) -> str:
        return in_unit(self.metric, self.forecast)


def in_unit(metric: str, value: float) -> str:
    """Write a value of a published metric.

    >>> in_unit("speedup", 47)
    '47.0×'
    """
    if metric == "hours":
        return f"{count(value) if value >= 100 else format(value, '.3g')}{THIN}h"
    return times(value) if metric == "speedup" else percent(value) if metric == "efficiency" else count(value)


def forecast_of(run: Run, metric: str) -> float | None:
    """Return the forecast of a run for a published metric; None without one."""
    if metric == "hours":
        return None if run.time_to_train_s is None else run.time_to_train_s / 3600.0
    return {"speedup": run.speedup, "samples_per_s": run.samples_per_s, "efficiency": run.efficiency}[metric]


def comparisons(sweep: Sweep) -> tuple[Comparison, ...]:
    """Return every published point that has a forecast, in the order of the runs."""
    return tuple(row for run in sweep.ran for point in run.published if (row := compare(sweep, run, point)))


def compare(sweep: Sweep, run: Run, point: PublishedFigure) -> Comparison | None:
    """Compare a run with one published point; None where the run forecasts no such metric."""
    forecast = forecast_of(run, point.metric)
    if not forecast or point.value <= 0:
        return None
    ratio = forecast / point.value
    return Comparison(
        run=run_label(sweep, run),
        num_gpus=run.num_gpus,
        metric=point.metric,
        published=point.value,
        forecast=forecast,
        error=ratio - 1.0,
        gain=ratio if point.metric == "hours" else 1.0 / ratio,
        source=point.source,
        note=point.note,
    )


def error_summary(rows: tuple[Comparison, ...]) -> str:
    """Return the error of the forecast as a short text."""
    sizes = [abs(row.error) for row in rows]
    if len(rows) == 1:
        return f"{percent(rows[0].error, signed=True)} off the one published figure"
    return f"within {percent(max(sizes))} of all {len(rows)} published figures (median {percent(median(sizes))})"


def published_data(sweep: Sweep) -> tuple[Comparison, ...]:
    """Return the comparisons to draw, top to bottom."""
    return comparisons(sweep)


def draw_published(rows: tuple[Comparison, ...]) -> Figure:
    """Draw the error of each point as a dot on a stem from zero."""
    errors = [100.0 * row.error for row in rows]
    labels = [plot_text(f"{row.run}: {METRICS[row.metric]} {row.published_text()}") for row in rows]
    reach = max(16.0, 2.0 * max(abs(error) for error in errors))
    stems: dict[str, list[float | None]] = {"x": [], "y": []}
    for place, error in enumerate(errors):
        stems["x"] += [0.0, error, None]
        stems["y"] += [place, place, None]
    traces: list[Json] = [
        {"type": "scatter", "mode": "lines", **stems, "line": {"color": "@muted", "width": 2}, "hoverinfo": "skip"},
        {
            "type": "scatter",
            "mode": "markers+text",
            "x": errors,
            "y": list(range(len(rows))),
            "text": [percent(row.error, signed=True) for row in rows],
            "textposition": ["middle left" if error < 0 else "middle right" for error in errors],
            "hovertext": [_hover(row) for row in rows],
            "hoverinfo": "text",
            "marker": {"size": 11, "color": "@series0"},
            "cliponaxis": False,
        },
    ]
    band = {"type": "rect", "xref": "x", "yref": "paper", "x0": -10, "x1": 10, "y0": 0, "y1": 1}
    shapes = [
        {**band, "fillcolor": "@box", "line": {"width": 0}, "layer": "below"},
        {"type": "line", "xref": "x", "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "line": {"color": "@ink"}},
    ]
    ticks: Json = {"tickvals": list(range(len(rows))), "ticktext": labels}
    return Figure(
        title=f"The forecast is {error_summary(rows)}",
        subtitle="Forecast / published − 1 for each published figure; the band is ±10 %.",
        traces=traces,
        layout=layout(
            80 + 34 * len(rows),
            shapes=shapes,
            xaxis=axis("error of the forecast (%)", range=[-reach, reach]),
            yaxis=axis(**ticks, range=[len(rows) - 0.4, -0.6], showgrid=False, fixedrange=True),
        ),
        narrow={
            "xaxis": {"range": [-1.2 * reach, 1.2 * reach], "nticks": 5},
            "yaxis": {"ticktext": [label.replace(": ", ":<br>") for label in labels]},
            "height": 80 + 46 * len(rows),
        },
    )


def _hover(row: Comparison) -> str:
    parts = [
        f"<b>{plot_text(row.run)}</b>, {METRICS[row.metric]}",
        f"forecast {row.forecast_text()}, published {row.published_text()}",
        f"error {percent(row.error, signed=True)}",
        plot_text(row.source),
        plot_text(row.note),
    ]
    return "<br>".join(part for part in parts if part)
