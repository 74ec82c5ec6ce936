"""The error of every scored point against the number of GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from clustersim.report.figure import Figure, Json, layout
from clustersim.report.words import gpus, percent
from clustersim.validation.figures.marks import clipped, error_axis, marks, size_axis
from clustersim.validation.verdict import Compared, Verdict


@dataclass(frozen=True)
class BySize:
    """Scored points, and for each number of GPUs [num_sizes] the median absolute error."""

    points: list[tuple[str, Compared]]
    sizes: list[int]
    medians: list[float]


def by_size_data(verdict: Verdict) -> BySize | None:
    """Return the scored points; None if there are none."""
    points = [(case.name, point) for case in verdict.cases for point in case.points if point.is_scored]
    if not points:
        return None
    sizes = sorted({point.num_gpus for _, point in points})
    medians = [median(abs(point.error) for _, point in points if point.num_gpus == size) for size in sizes]
    return BySize(points, sizes, medians)


def draw_by_size(data: BySize) -> Figure:
    """Draw errors against GPUs on a logarithmic axis, with the band of 10 % and the median of each size."""
    band: Json = {"type": "rect", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": -10, "y1": 10}
    worst = max(range(len(data.sizes)), key=lambda number: data.medians[number])
    ends: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "median",
            "x": data.sizes,
            "y": [sign * min(100.0, 100.0 * middle) for middle in data.medians],
            "line": {"color": "@muted", "width": 1.5, "dash": "dash"},
            "hoverinfo": "skip",
        }
        for sign in (1.0, -1.0)
    ]
    sizes, errors = [float(point.num_gpus) for _, point in data.points], [clipped(p.error) for _, p in data.points]
    return Figure(
        title=f"The median error is largest at {gpus(data.sizes[worst])}: {percent(data.medians[worst])}",
        subtitle="Error of each predicted point; the dashed lines are ± the median error of a size.",
        traces=[*ends, *marks(data.points, sizes, errors)],
        layout=layout(
            400,
            shapes=[{**band, "fillcolor": "@box", "line": {"width": 0}, "layer": "below"}],
            xaxis=size_axis(data.sizes),
            yaxis=error_axis(errors),
        ),
        narrow={"yaxis": {"nticks": 5, "title": {"text": "error (%)"}}},
    )
