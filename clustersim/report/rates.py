"""Throughput at one size: one row per setting, where there is no curve to draw."""

from __future__ import annotations

from clustersim.report.figure import Figure, Json, axis, layout, legend, names_over
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.scaling import Scaling, ScalingLine
from clustersim.report.words import count, gpus, percent, plot_text, shortened, times


def draw_rates(data: Scaling) -> Figure:
    """Draw the one point of each line as a marker with its band, in the order of the table; dashed: its ideal."""
    lines = list(data.lines)
    names = [plot_text(shortened(line.label or gpus(line.num_gpus[0]), 44)) for line in lines]
    number = lines[0].num_gpus[0]
    ideal = [line.rate[0] / line.efficiency[0] for line in lines]
    points = [point.rate for point in data.points]
    longest = max([high for line in lines for _, high in [_ends(line) or (0.0, line.rate[0])]] + ideal + points)
    what, baseline = ("Speedup", f"; baseline: {data.basis}") if data.metric == "speedup" else ("Samples/s", "")
    whiskers = f"hold {percent(data.band_level)} of measurements" if data.band_level else ""
    whiskers = whiskers or (f"are the {percent(data.level)} interval of the mean" if data.level else "")
    band = f"; whiskers {whiskers}" if whiskers else ""
    drawn = layout(
        110 + 34 * len(lines),
        shapes=[_ideal(rate, place) for place, rate in enumerate(ideal)],
        xaxis=axis("speedup" if data.metric == "speedup" else "samples/s", range=[0, 1.12 * longest]),
        yaxis=axis(tickvals=list(range(len(lines))), ticktext=names, range=[len(lines) - 0.4, -0.6], fixedrange=True),
        legend=legend(),
        showlegend=bool(points),
    )
    traces = [_marker(data, line, place) for place, line in enumerate(lines)]
    traces += [_published(data, lines)] if points else []
    sizes = {line.num_gpus[0] for line in lines}
    at = f"at {gpus(number)}" if len(sizes) == 1 else f"on {count(min(sizes))} to {gpus(max(sizes))}"
    under = f"{what} {at}, one row per setting{baseline}{band}; "
    under += "dashed: the ideal of each row, the rate per GPU of its baseline on all GPUs."
    narrow = {**names_over([line.label or gpus(number) for line in lines]), "xaxis": {"nticks": 5}}
    return Figure(data.title, under, traces, drawn, {**narrow, "height": 110 + 42 * len(lines)})


def _marker(data: Scaling, line: ScalingLine, place: int) -> Json:
    rate, ends = line.rate[0], _ends(line)
    text = times(rate) if data.metric == "speedup" else f"{count(rate)} samples/s"
    bars: Json = {"visible": False}
    if ends is not None:
        low, high = ends
        bars = {"type": "data", "symmetric": False, "array": [high - rate], "arrayminus": [rate - low], "thickness": 2}
    return {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "x": [rate],
        "y": [place],
        "error_x": bars,
        "hovertext": [f"<b>{plot_text(line.label)}</b><br>{text}<br>efficiency {percent(line.efficiency[0])}"],
        "hoverinfo": "text",
        "marker": {"size": 11, "color": series_colour(place), "symbol": series_marker(place)},
    }


def _ends(line: ScalingLine) -> tuple[float, float] | None:
    """Return the ends of the one point's band, or else of its interval; None with neither."""
    low, high = line.low[0], line.high[0]
    return line.band[0] or (None if low is None or high is None else (low, high))


def _published(data: Scaling, lines: list[ScalingLine]) -> Json:
    places = {line.label: place for place, line in enumerate(lines)}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "published",
        "x": [point.rate for point in data.points],
        "y": [places[point.label] for point in data.points],
        "hovertext": [point.text for point in data.points],
        "hoverinfo": "text",
        "marker": {"symbol": "diamond-open", "size": 12, "color": "@ink", "line": {"width": 2, "color": "@ink"}},
    }


def _ideal(rate: float, place: int) -> Json:
    """Return a dashed line at a rate in one row."""
    line = {"color": "@muted", "width": 1.2, "dash": "dash"}
    return {"type": "line", "x0": rate, "x1": rate, "y0": place - 0.5, "y1": place + 0.5, "line": line}
