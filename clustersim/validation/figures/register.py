"""How many forecasts are within an error: the register's first forecasts beside cases that were looked at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.words import percent, plural
from clustersim.validation.register.score import RegisterScore
from clustersim.validation.score import summarise

_LEAST_REACH, _MOST_REACH = 0.3, 1.0

_STYLES: Mapping[str, Json] = {
    "first": {"color": "@series0", "width": 3},
    "present": {"color": "@series0", "width": 1.5, "dash": "dot"},
    "tuned": {"color": "@series1", "width": 2, "dash": "dash"},
}


@dataclass(frozen=True)
class ErrorCurve:
    """Absolute errors [num_points] in ascending order, and the share of forecasts [num_points] that are within each.

    Every group (source or case) has equal weight. `median` is the median of the groups' medians, and nine in ten
    forecasts are within `p90`, as in the tables.
    """

    kind: str
    name: str
    sizes: list[float]
    shares: list[float]
    median: float
    p90: float

    def share_within(self, size: float) -> float:
        """Return the share of forecasts whose absolute error is at most `size`."""
        number = bisect_right(self.sizes, size)
        return self.shares[number - 1] if number else 0.0


def register_curves(scored: RegisterScore, tuned: Sequence[Sequence[float]]) -> list[ErrorCurve]:
    """Return the curves of first forecasts, of the present version if it was asked, and of cases (`tuned`).

    `tuned` are the errors of each case. Curves without a point are left out.
    """
    first = list(scored.errors_by_source().values())
    present = list(scored.errors_by_source(present=True).values())
    named = [
        ("first", f"first forecasts, {plural(len(first), 'source')}", first),
        ("present", "present version, same scenarios", present),
        ("tuned", f"{plural(len(tuned), 'case')} seen during development", [list(case) for case in tuned]),
    ]
    return [_curve(kind, name, groups) for kind, name, groups in named if groups]


def _curve(kind: str, name: str, groups: Sequence[Sequence[float]]) -> ErrorCurve:
    sizes = np.array([abs(error) for group in groups for error in group])
    weights = np.array([1.0 / len(group) / len(groups) for group in groups for _ in group])
    order = np.argsort(sizes, kind="stable")
    found = summarise(groups)
    assert found.median_abs_error is not None
    assert found.p90_abs_error is not None
    return ErrorCurve(
        kind=kind,
        name=name,
        sizes=sizes[order].tolist(),
        shares=np.cumsum(weights[order]).tolist(),
        median=found.median_abs_error,
        p90=found.p90_abs_error,
    )


def draw_register(curves: Sequence[ErrorCurve]) -> Figure:
    """Draw the share of forecasts within an error as steps, with the median and the error of nine in ten as marks."""
    reach = min(_MOST_REACH, max([_LEAST_REACH, *(1.3 * curve.p90 for curve in curves)]))
    return Figure(
        title=_title(curves),
        subtitle="Share of forecasts within an error; marks: median of the sources' medians, and nine in ten. "
        "Every source, and every case, has equal weight.",
        traces=[trace for curve in curves for trace in _traces(curve, reach)],
        layout=layout(
            420,
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
    first = by_kind["first"]
    title = (
        f"The median error of forecasts made before their figures were known is {percent(first.median)}, "
        f"and nine in ten are within {percent(first.p90)}"
    )
    if "tuned" in by_kind:
        tuned = by_kind["tuned"]
        title += f"; of cases seen during development {percent(tuned.median)} and {percent(tuned.p90)}"
    return title


def _traces(curve: ErrorCurve, reach: float) -> list[Json]:
    """Return the steps of a curve up to the edge of the figure, and its marks with their errors as text."""
    style = _STYLES[curve.kind]
    marked = (curve.median, curve.p90)
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
            "x": [100.0 * size for size in marked],
            "y": [100.0 * curve.share_within(size) for size in marked],
            "text": ["" if curve.kind == "present" else percent(size) for size in marked],
            "textposition": "bottom right" if curve.kind != "tuned" else "top left",
            "textfont": {"color": style["color"], "size": 14},
            "marker": {"color": style["color"], "size": 9},
            "hoverinfo": "skip",
        },
    ]
