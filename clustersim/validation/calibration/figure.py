"""The residuals of a fit: the error of every figure against its size, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.words import duration, gpus, percent, plot_text, plural, size
from clustersim.simulate.transport_fit.constants import Residual
from clustersim.validation.calibration.calibrate import Calibration

MOST_ERROR = 1.0
"""Errors beyond this are drawn at the edge; the hover text has their value."""

MOST_GROUPS = 8
"""Groups beyond this share the last hue and marker."""


@dataclass(frozen=True)
class Group:
    """Figures of one kind and one number of GPUs [num_points], smallest first."""

    label: str
    points: list[Residual]


@dataclass(frozen=True)
class Residuals:
    """The residuals of one transport's figures, and the median errors before and after the fit."""

    transport: str
    groups: list[Group]
    before: float
    after: float

    @property
    def points(self) -> list[Residual]:
        return [point for group in self.groups for point in group.points]


def residuals_data(calibration: Calibration) -> Residuals:
    """Return the figures by kind and number of GPUs, the largest groups first."""
    groups: dict[str, list[Residual]] = {}
    for point in calibration.fit.residuals:
        groups.setdefault(f"{point.what}, {gpus(point.num_gpus)}", []).append(point)
    found = [Group(label, sorted(points, key=lambda point: point.num_bytes)) for label, points in groups.items()]
    found.sort(key=lambda group: -len(group.points))
    fit = calibration.fit
    return Residuals(calibration.transport, found, fit.median_abs_error_before, fit.median_abs_error)


def draw_residuals(data: Residuals) -> Figure:
    """Draw errors against sizes: filled marks with the fitted constants, small grey marks with those of the sheet."""
    before = _marks("before", data.points, [point.error_before for point in data.points])
    before["marker"] = {"symbol": "circle-open", "size": 6, "color": "@muted", "line": {"width": 1}}
    traces = [before]
    for number, group in enumerate(data.groups):
        place = min(number, MOST_GROUPS - 1)
        trace = _marks(group.label, group.points, [point.error for point in group.points])
        trace["marker"] = {"symbol": series_marker(place), "size": 9, "color": series_colour(place)}
        traces.append(trace | ({"mode": "lines+markers", "line": {"color": series_colour(place), "width": 1}}))
    band: Json = {"type": "rect", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": -10, "y1": 10}
    errors = [_clipped(error) for point in data.points for error in (point.error, point.error_before)]
    reach = 1.08 * max(20.0, *map(abs, errors))
    return Figure(
        title=(
            f"{plural(len(data.points), 'figure')} of {data.transport}: the median error is {percent(data.after)} "
            f"with the fitted constants, {percent(data.before)} before"
        ),
        subtitle="Error of each figure against its size; grey marks: constants of the sheet. Limited to ±100 %.",
        traces=traces,
        layout=layout(
            440,
            shapes=[{**band, "fillcolor": "@box", "line": {"width": 0}, "layer": "below"}],
            xaxis=_size_axis([point.num_bytes for point in data.points]),
            yaxis=axis("error (%): simulated / measured − 1", range=[-reach, reach], nticks=9),
            showlegend=True,
            legend=legend(),
        ),
        narrow={"yaxis": {"nticks": 5, "title": {"text": "error (%)"}}, "xaxis": {"nticks": 4}},
        label=data.transport,
    )


def _marks(name: str, points: list[Residual], errors: list[float]) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plot_text(name),
        "x": [max(1.0, point.num_bytes) for point in points],
        "y": [_clipped(error) for error in errors],
        "hovertext": [_hover_text(point) for point in points],
        "hoverinfo": "text",
        "cliponaxis": False,
    }


def _hover_text(point: Residual) -> str:
    words = [
        f"<b>{plot_text(point.what)}</b>, {gpus(point.num_gpus)}, {size(point.num_bytes)}",
        f"measured {duration(point.measured_s)}, simulated {duration(point.simulated_s)}, "
        f"before {duration(point.before_s)}",
        f"error {percent(point.error, signed=True)}, before {percent(point.error_before, signed=True)}",
        f"{plot_text(Path(point.source).name)}, line {point.line}",
    ]
    return "<br>".join(words)


def _clipped(error: float) -> float:
    """Return an error in %, limited to the edge of the figure."""
    return 100.0 * max(-MOST_ERROR, min(MOST_ERROR, error))


def _size_axis(sizes: list[float]) -> Json:
    """Return a logarithmic axis of bytes with ticks at powers of 1000 around the sizes; size 0 is drawn at 1 B."""
    low, high = floor(log10(max(1.0, min(sizes))) - 0.05), ceil(log10(max(10.0, *sizes)) + 0.05)
    ticks = [10.0**power for power in range(low, high + 1) if power % 3 == 0 or high - low <= 6]
    texts = [size(tick) for tick in ticks]
    return axis("size (bytes)", type="log", range=[low, high], tickvals=ticks, ticktext=texts, tickangle=0)
