"""Simulated against measured values, on logarithmic axes of equal length."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, layout, legend
from clustersim.report.words import percent
from clustersim.validation.figures.marks import log_axis, marks
from clustersim.validation.verdict import Compared, Verdict


@dataclass(frozen=True)
class Scatter:
    """Points of one metric and unit [num_points], each with its case, and the share of accurate scored points."""

    metric: str
    unit: str
    points: list[tuple[str, Compared]]
    num_scored: int
    within: float | None  # share of scored points within 10 %


def scatter_data(verdict: Verdict) -> tuple[Scatter, ...]:
    """Return the points by metric, the one with the most scored points first; images/s count as samples/s."""
    groups: dict[tuple[str, str], list[tuple[str, Compared]]] = {}
    for case in verdict.cases:
        for point in case.points:
            unit = "samples/s" if point.metric == "samples_per_s" else point.unit
            groups.setdefault((point.metric, unit), []).append((case.name, point))
    found = [_scatter(metric, unit, points) for (metric, unit), points in groups.items()]
    return tuple(sorted(found, key=lambda each: (-each.num_scored, -len(each.points), each.metric, each.unit)))


def _scatter(metric: str, unit: str, points: list[tuple[str, Compared]]) -> Scatter:
    errors = [abs(point.error) for _, point in points if point.is_scored]
    within = sum(error <= 0.1 for error in errors) / len(errors) if errors else None
    return Scatter(metric, unit, points, len(errors), within)


def draw_scatter(data: Scatter) -> Figure:
    """Draw the points, the diagonal, and a band of 10 % beside it."""
    x, y = [point.measured for _, point in data.points], [point.simulated for _, point in data.points]
    both = [*x, *y]
    across, up = log_axis(f"measured ({data.unit})", both), log_axis(f"simulated ({data.unit})", both)
    ends = [10.0 ** across["range"][0], 10.0 ** across["range"][1]]
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "showlegend": False,
            "x": ends,
            "y": [factor * end for end in ends],
            "line": {"color": "@muted", "width": 1, "dash": "solid" if factor == 1.0 else "dot"},
            "hoverinfo": "skip",
        }
        for factor in (1.0, 1.1, 1 / 1.1)
    ]
    if data.within is None:
        title = f"{len(data.points)} figures of {data.metric}, none of them scored"
    else:
        title = f"{percent(data.within)} of {data.num_scored} predicted {data.metric} are within 10 %"
    return Figure(
        title=title,
        subtitle="Simulated against measured; the dotted lines are 10 % off the diagonal.",
        traces=[*lines, *marks(data.points, x, y)],
        layout=layout(480, xaxis=across, yaxis=up, showlegend=True, legend=legend()),
        label=f"{data.metric} ({data.unit})",
    )
