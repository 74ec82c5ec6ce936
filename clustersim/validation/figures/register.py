"""How many forecasts are within an error: the register's first forecasts beside cases that were looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.words import percent, plural
from clustersim.validation.register.score import RegisterScore
from clustersim.validation.score import weighted_percentile

LEVELS = (0.5, 0.9)
"""Shares of forecasts whose error is written beside each curve."""

_LEAST_REACH, _MOST_REACH = 0.3, 1.0

_STYLES: Mapping[str, Json] = {
    "first": {"color": "@series0", "width": 3},
    "present": {"color": "@series0", "width": 1.5, "dash": "dot"},
    "tuned": {"color": "@series1", "width": 2, "dash": "dash"},
}


@dataclass(frozen=True)
class ErrorCurve:
    """Absolute errors [num_points] in ascending order, the share of forecasts [num_points] that are within each.

    `at_levels` are the errors at `LEVELS`. Every group (source or case) has equal weight.
    """

    kind: str
    name: str
    sizes: list[float]
    shares: list[float]
    at_levels: list[float]
    num_groups: int


def register_curves(scored: RegisterScore, tuned: Sequence[Sequence[float]]) -> list[ErrorCurve]:
    """Return the curves of first forecasts, of the present version if it was asked, and of cases (`tuned`).

    `tuned` are the errors of each case. Curves without a point are left out.
    """
    first = list(scored.errors_by_source().values())
    present = list(scored.errors_by_source(present=True).values())
    named = [
        ("first", f"first forecasts, {plural(len(first), 'source')} nobody had looked at", first),
        ("present", "the same scenarios, present version", present),
        ("tuned", f"{plural(len(tuned), 'case')} seen during development", [list(case) for case in tuned]),
    ]
    return [_curve(kind, name, groups) for kind, name, groups in named if groups]


def _curve(kind: str, name: str, groups: Sequence[Sequence[float]]) -> ErrorCurve:
    sizes = np.array([abs(error) for group in groups for error in group])
    weights = np.array([1.0 / len(group) / len(groups) for group in groups for _ in group])
    order = np.argsort(sizes, kind="stable")
    absolute = [[abs(error) for error in group] for group in groups]
    return ErrorCurve(
        kind=kind,
        name=name,
        sizes=sizes[order].tolist(),
        shares=np.cumsum(weights[order]).tolist(),
        at_levels=[weighted_percentile(absolute, level) for level in LEVELS],
        num_groups=len(groups),
    )


def draw_register(curves: Sequence[ErrorCurve]) -> Figure:
    """Draw the share of forecasts within an error as steps, with the errors of half and of nine in ten as marks."""
    reach = min(_MOST_REACH, max([_LEAST_REACH, *(1.3 * curve.at_levels[-1] for curve in curves)]))
    lines: list[Json] = [
        {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 100 * level, "y1": 100 * level,
         "line": {"color": "@muted", "width": 1, "dash": "dot"}, "layer": "below"}
        for level in LEVELS
    ]  # fmt: skip
    return Figure(
        title=_title(curves),
        subtitle="Share of forecasts whose error is at most that on the axis below; marks: half, and nine in ten. "
        "Every source, and every case, has equal weight.",
        traces=[trace for curve in curves for trace in _traces(curve, reach)],
        layout=layout(
            420,
            shapes=lines,
            xaxis=axis("error, either way (%)", range=[0, 100 * reach], nticks=9, rangemode="tozero"),
            yaxis=axis("forecasts within it (%)", range=[0, 102], tickvals=[0, 25, 50, 75, 90, 100]),
            showlegend=True,
            legend=legend(),
        ),
        narrow={"xaxis": {"nticks": 5}},
    )


def _title(curves: Sequence[ErrorCurve]) -> str:
    by_kind = {curve.kind: curve for curve in curves}
    if "first" not in by_kind:
        return "The register has no scored figure yet"
    half, most = (percent(size) for size in by_kind["first"].at_levels)
    title = f"Half of the forecasts made before their figures were known are within {half}, nine in ten within {most}"
    if "tuned" in by_kind:
        title += f"; of cases seen during development within {percent(by_kind['tuned'].at_levels[0])} and "
        title += percent(by_kind["tuned"].at_levels[1])
    return title


def _traces(curve: ErrorCurve, reach: float) -> list[Json]:
    """Return the steps of a curve up to the edge of the figure, and its marks with their errors as text."""
    style = _STYLES[curve.kind]
    x, y = [0.0, *curve.sizes, max(reach, curve.sizes[-1])], [0.0, *curve.shares, 1.0]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": curve.name,
            "x": [100.0 * size for size in x],
            "y": [100.0 * share for share in y],
            "line": {**style, "shape": "hv"},
            "hovertemplate": "%{y:.0f} % are within %{x:.1f} %<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "markers+text",
            "showlegend": False,
            "x": [100.0 * size for size in curve.at_levels],
            "y": [100.0 * level for level in LEVELS],
            "text": [percent(size) for size in curve.at_levels],
            "textposition": "bottom right" if curve.kind != "tuned" else "top left",
            "textfont": {"color": style["color"], "size": 14},
            "marker": {"color": style["color"], "size": 9},
            "hoverinfo": "skip",
        },
    ]
