"""Scaling curves of one case: simulated lines, and measured figures as outlined marks."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, layout, legend
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.words import gpus, percent, plot_text
from clustersim.validation.figures.marks import hover_text, log_axis, size_axis
from clustersim.validation.verdict import CaseVerdict, Compared, Verdict

MOST_LINES = 12


@dataclass(frozen=True)
class Curve:
    """Points that differ only in the number of GPUs [num_points], smallest first."""

    label: str
    points: list[Compared]


@dataclass(frozen=True)
class Curves:
    """The lines of one case, metric and unit; `num_left_out` is the number of lines beyond `MOST_LINES`."""

    case: str
    metric: str
    unit: str
    lines: list[Curve]
    num_left_out: int


def curves_data(verdict: Verdict) -> tuple[Curves, ...]:
    """Return the curves of every case that has a metric at two sizes or more, cases in the order of the verdict."""
    return tuple(curves for case in verdict.cases for curves in _of_case(case))


def _of_case(case: CaseVerdict) -> list[Curves]:
    by_metric: dict[tuple[str, str], dict[str, list[Compared]]] = {}
    for point in case.points:
        by_label = by_metric.setdefault((point.metric, point.unit), {})
        by_label.setdefault(_line_label(point), []).append(point)
    found = []
    for (metric, unit), groups in by_metric.items():
        lines = [
            Curve(label, sorted(points, key=lambda point: point.num_gpus))
            for label, points in groups.items()
            if len({point.num_gpus for point in points}) > 1
        ]
        if lines:
            found.append(Curves(case.name, metric, unit, lines[:MOST_LINES], max(0, len(lines) - MOST_LINES)))
    return found


def _line_label(point: Compared) -> str:
    """Return the label of a line: the parts of a point's label that do not depend on the number of GPUs."""
    follows = {f"num {point.settings.get('strategy.servers.num')}", f"placement {point.settings.get('placement')}"}
    parts = point.label.split(", ") if not point.settings.get("placement") else [point.label.split(", ")[0]]
    return ", ".join(part for part in parts if part not in follows)


def draw_curves(data: Curves) -> Figure:
    """Draw each line in its hue, measured figures as black outlined marks of the line's shape."""
    traces: list[Json] = []
    for number, line in enumerate(data.lines):
        sizes = [point.num_gpus for point in line.points]
        common: Json = {"type": "scatter", "x": sizes, "hoverinfo": "text"}
        common["hovertext"] = [hover_text(data.case, point) for point in line.points]
        colour, marker = series_colour(number), series_marker(number)
        traces.append(
            common
            | {"mode": "lines+markers", "name": plot_text(line.label) or "simulated"}
            | {"y": [point.simulated for point in line.points], "line": {"color": colour, "width": 2}}
            | {"marker": {"symbol": marker, "size": 7, "color": colour}}
        )
        hollow = {"symbol": f"{marker}-open", "size": 12, "color": "@ink", "line": {"width": 1.5, "color": "@ink"}}
        measured = [point.measured for point in line.points]
        traces.append(common | {"mode": "markers", "showlegend": False, "y": measured, "marker": hollow})
    points = [point for line in data.lines for point in line.points]
    sizes = sorted({point.num_gpus for point in points})
    values = [value for point in points for value in (point.simulated, point.measured)]
    worst = max(points, key=lambda point: abs(point.error))
    return Figure(
        title=f"{data.case}: the largest error is {percent(worst.error, signed=True)}, at {gpus(worst.num_gpus)}",
        subtitle=f"{data.metric} ({data.unit}); lines: simulated, black outlined marks: measured.",
        traces=traces,
        layout=layout(
            460,
            xaxis=size_axis(sizes),
            yaxis=log_axis(f"{data.metric} ({data.unit})", values),
            showlegend=len(data.lines) > 1,
            legend=legend(),
        ),
        label=f"{data.case}, {data.metric}",
        note=f"{data.num_left_out} more lines are in the table." if data.num_left_out else "",
    )
