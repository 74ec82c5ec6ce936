"""Shared parts of the plots of a validation: marks of points, hover texts, and axes."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import Any

from clustersim.report.figure import Json, axis
from clustersim.report.words import gpus, percent, plot_text
from clustersim.validation.text import number_text
from clustersim.validation.verdict import Compared

MOST_ERROR = 1.0
"""Errors beyond this are drawn at the edge; the hover text has their value."""

STATUSES = ("scored", "calibrates", "shown only")
"""A scored prediction; an input of its case; a prediction of a figure that was not read or not measured."""

_SYMBOLS = {"scored": "circle", "calibrates": "circle-open", "shown only": "x-thin-open"}


def status(point: Compared) -> str:
    """Return which of `STATUSES` a point has."""
    return "scored" if point.is_scored else "calibrates" if point.role == "calibration" else "shown only"


def hover_text(case: str, point: Compared) -> str:
    """Return the hover text of a point."""
    words = [
        f"<b>{plot_text(case)}</b>, {gpus(point.num_gpus)}",
        plot_text(point.label),
        f"{point.metric}: simulated {number_text(point.simulated)}, "
        f"measured {number_text(point.measured)} {plot_text(point.unit)}",
        f"error {percent(point.error, signed=True)} ({status(point)})",
        plot_text(point.where),
        plot_text(point.note),
    ]
    return "<br>".join(filter(None, words))


def marks(points: list[tuple[str, Compared]], x: list[float], y: list[float], **parts: Any) -> list[Json]:
    """Return a trace for each status that occurs among points [num_points], drawn at x and y [num_points]."""
    traces = []
    for name in STATUSES:
        chosen = [number for number, (_, point) in enumerate(points) if status(point) == name]
        if chosen:
            colour = "@series0" if name == "scored" else "@muted"
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [x[number] for number in chosen],
                    "y": [y[number] for number in chosen],
                    "hovertext": [hover_text(*points[number]) for number in chosen],
                    "hoverinfo": "text",
                    "marker": {"symbol": _SYMBOLS[name], "size": 8, "color": colour, "line": {"width": 1.5}},
                    "cliponaxis": False,
                    **parts,
                }
            )
    return traces


def clipped(error: float) -> float:
    """Return an error in %, limited to the edge of the figure."""
    return 100.0 * max(-MOST_ERROR, min(MOST_ERROR, error))


def error_axis(errors: list[float]) -> Json:
    """Return an axis of errors in % [num_points] around zero, as narrow as possible."""
    reach = 1.08 * max(20.0, *map(abs, errors), 0.0)
    return axis("error (%): simulated / measured − 1", range=[-reach, reach], nticks=9)


def size_axis(sizes: list[int]) -> Json:
    """Return a logarithmic axis of numbers of GPUs, with ticks at powers of two."""
    powers = [2**power for power in range(min(sizes).bit_length() - 1, max(sizes).bit_length() + 1)]
    ticks = [size for size in powers if min(sizes) <= size <= max(sizes)] or sizes
    return axis("GPUs", type="log", tickvals=ticks, ticktext=[str(size) for size in ticks], tickangle=0)


def log_axis(title: str, values: list[float]) -> Json:
    """Return a logarithmic axis over whole decades around the values."""
    low, high = floor(log10(min(values)) - 0.05), ceil(log10(max(values)) + 0.05)
    ticks = [10.0**power for power in range(low, high + 1)]
    texts = [number_text(tick) for tick in ticks]
    return axis(title, type="log", range=[low, high], tickvals=ticks, ticktext=texts, ticklabeloverflow="allow")
