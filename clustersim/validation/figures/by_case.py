"""The error of every point, case by case, the worst case on top."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.words import percent, plot_text
from clustersim.validation.figures.marks import clipped, error_axis, marks
from clustersim.validation.verdict import Compared, Verdict


@dataclass(frozen=True)
class ByCase:
    """Cases from top to bottom with their median error, and every point with the number of its case."""

    cases: list[str]
    medians: list[float | None]
    points: list[tuple[str, Compared]]
    rows: list[int]


def by_case_data(verdict: Verdict) -> ByCase:
    """Return all points in the order of the cases."""
    points = [(case.name, point) for case in verdict.cases for point in case.points]
    rows = [number for number, case in enumerate(verdict.cases) for _ in case.points]
    medians = [case.summary().median_abs_error for case in verdict.cases]
    return ByCase([case.name for case in verdict.cases], medians, points, rows)


def draw_by_case(data: ByCase) -> Figure:
    """Draw each case as a row of marks over its errors, with a band of 10 %."""
    band: Json = {"type": "rect", "xref": "x", "yref": "paper", "x0": -10, "x1": 10, "y0": 0, "y1": 1}
    zero: Json = {"type": "line", "xref": "x", "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1}
    labels = [
        f"{plot_text(name)} ({'–' if median is None else percent(median)})"
        for name, median in zip(data.cases, data.medians, strict=True)
    ]
    ticks: Json = {"tickvals": list(range(len(labels))), "ticktext": labels}
    known = [(median, name) for median, name in zip(data.medians, data.cases, strict=True) if median is not None]
    title = "No case has a scored point"
    if known:
        good = sum(median <= 0.1 for median, _ in known)
        worst, name = max(known)
        title = (
            f"The median error is at most 10 % in {good} of {len(known)} cases; the worst is {name}, {percent(worst)}"
        )
    errors = [clipped(point.error) for _, point in data.points]
    return Figure(
        title=title,
        subtitle="Error of every point; in brackets the median over predicted points. Limited to ±100 %.",
        traces=marks(data.points, errors, [float(row) for row in data.rows]),
        layout=layout(
            130 + 30 * len(labels),
            shapes=[
                {**band, "fillcolor": "@box", "line": {"width": 0}, "layer": "below"},
                {**zero, "line": {"color": "@ink", "width": 1}},
            ],
            xaxis=error_axis(errors),
            yaxis=axis(**ticks, range=[len(labels) - 0.4, -0.6], showgrid=False, fixedrange=True),
            showlegend=True,
            legend=legend(),
        ),
        narrow={
            "yaxis": {"tickfont": {"size": 10}},
            "xaxis": {"nticks": 5, "tickangle": 0, "title": {"text": "error (%)"}},
        },
    )
