"""Scaling curve: speedup against the number of GPUs on log-log axes, efficiency below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10

from clustersim.report.baselines import speedups_compare
from clustersim.report.figure import Figure, Json, axis, layout, legend, merged
from clustersim.report.options import EQUAL, main_cell, question_of
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.per_axis import axes_compared
from clustersim.report.published import METRICS, compare, in_unit
from clustersim.report.series import Series, basis, headline, largest, of_model, run_label, series
from clustersim.report.words import count, gpus, percent, plot_text, times
from clustersim.results import Run, Sweep

WIDTH_PX = 500.0
"""Approximate width of the plot on a desktop; it sets the height at which decades are equal."""

NARROW_WIDTH_PX = 260.0
"""The same on a phone."""


@dataclass(frozen=True)
class ScalingLine:
    """One forecast line: [num_points] GPUs, speedup (or samples/s), its interval, efficiency and iteration.

    `band` is where the measurement is expected; None at a point without a band.
    """

    label: str
    num_gpus: list[int]
    rate: list[float]
    low: list[float | None]
    high: list[float | None]
    efficiency: list[float]
    iteration_s: list[float]
    band: list[tuple[float, float] | None]


@dataclass(frozen=True)
class PublishedPoint:
    """One published figure on the same axis, the label of its line, and its hover text in its own unit."""

    label: str
    num_gpus: int
    rate: float
    text: str


@dataclass(frozen=True)
class Scaling:
    """The figure in numbers. `ideal` is the rate per GPU of each ideal line.

    `one_size`: each setting has one size, so that each line would be one point.
    """

    metric: str  # speedup or samples_per_s
    title: str
    lines: tuple[ScalingLine, ...]
    points: tuple[PublishedPoint, ...]
    ideal: tuple[float, ...]
    one_size: bool
    basis: str
    level: float | None
    band_level: float | None = None


def scaling_data(sweep: Sweep) -> Scaling:
    """Return the scaling curves: speedup where every run has one over as many GPUs, samples per second otherwise.

    The ideal line is perfect efficiency: rate / efficiency, proportional to the number of GPUs. A published point of
    another metric (such as hours) differs from its forecast by the same factor as in that metric.
    """
    metric = "speedup" if speedups_compare(sweep) else "samples_per_s"
    found = series(sweep)
    lines = tuple(_line(one, metric) for one in found)
    levels = {run.interval.level for run in sweep.ran if run.interval}
    return Scaling(
        metric=metric,
        title=scaling_title(sweep),
        lines=lines,
        points=tuple(point for one in found for run in one.runs for point in _points(sweep, run, one.label, metric)),
        ideal=_ideal(lines),
        one_size=all(len(line.num_gpus) == 1 for line in lines),
        basis=basis(sweep),
        level=min(levels) if levels else None,
        band_level=next((run.band.level for run in sweep.ran if run.band), None),
    )


def scaling_title(sweep: Sweep) -> str:
    """Name the gain of the largest size, or the best series where there are several."""
    question = question_of(sweep)
    cell = main_cell(question)
    run, rivals = headline(sweep), cell.runs if question.choices else largest(sweep)
    if len(rivals) > 1:
        if question.is_chosen and (axes := axes_compared(question, cell).partition("; ")[0]):
            return f"At {gpus(rivals[0].num_gpus)}, {axes}"
        best, worst = run_label(sweep, question.best(cell)), run_label(sweep, question.worst(cell))
        factor = rivals[0].samples_per_s / rivals[-1].samples_per_s
        if factor <= 1 + EQUAL:
            every = "both settings" if len(rivals) == 2 else f"all {len(rivals)} settings"
            return f"At {gpus(run.num_gpus)}, {every}{of_model(sweep)} are equally fast within 1 %"
        return f"{best}: {times(factor)} the throughput of {worst.partition(', ')[2] or worst}"
    what = f"{count(run.samples_per_s)} samples/s" if run.speedup is None else f"a speedup of {times(run.speedup)}"
    what += of_model(sweep)
    if len({other.num_gpus for other in sweep.ran}) == 1:
        return f"One size only: {gpus(run.num_gpus)} give {what}" if run.num_gpus > 1 else f"One GPU gives {what}"
    return f"{gpus(run.num_gpus)} give {what}, at {percent(run.efficiency)} efficiency"


def _line(one: Series, metric: str) -> ScalingLine:
    intervals = [getattr(run.interval, metric) if run.interval else None for run in one.runs]
    return ScalingLine(
        label=one.label,
        num_gpus=[run.num_gpus for run in one.runs],
        rate=[float(getattr(run, metric)) for run in one.runs],
        low=[interval[0] if interval else None for interval in intervals],
        high=[interval[1] if interval else None for interval in intervals],
        efficiency=[run.efficiency for run in one.runs],
        iteration_s=[run.iteration_s for run in one.runs],
        band=[_scaled_band(run, float(getattr(run, metric))) for run in one.runs],
    )


def _scaled_band(run: Run, rate: float) -> tuple[float, float] | None:
    """Return the band of a run in the unit of `rate`, which is proportional to samples per second."""
    if run.band is None:
        return None
    low, high = run.band.samples_per_s
    return rate * low / run.samples_per_s, rate * high / run.samples_per_s


def _points(sweep: Sweep, run: Run, label: str, metric: str) -> list[PublishedPoint]:
    points = []
    for published in run.published:
        row = compare(sweep, run, published)
        if row:
            text = f"published {METRICS[row.metric]} {in_unit(row.metric, row.published)}"
            forecast = f"forecast {row.forecast_text()}, error {percent(row.error, signed=True)}"
            words = [f"<b>{plot_text(row.run)}</b>", text, forecast, plot_text(row.source), plot_text(row.note)]
            points.append(
                PublishedPoint(label, run.num_gpus, getattr(run, metric) * row.gain, "<br>".join(filter(None, words)))
            )
    return points


def _ideal(lines: tuple[ScalingLine, ...]) -> tuple[float, ...]:
    slopes: list[float] = []
    for line in lines:
        for number, rate, efficiency in zip(line.num_gpus, line.rate, line.efficiency, strict=True):
            slope = rate / efficiency / number
            if not any(abs(slope / known - 1.0) < 0.01 for known in slopes):
                slopes.append(slope)
    return tuple(slopes)


def draw_scaling(data: Scaling) -> Figure:
    """Draw the curves, their bands, the ideal, the published points and the efficiency below."""
    sizes = sorted({number for line in data.lines for number in line.num_gpus})
    rates = [rate for line in data.lines for rate in line.rate] + [point.rate for point in data.points]
    rates += [slope * number for slope in data.ideal for number in (sizes[0], sizes[-1])]
    rates += [end for line in data.lines for pair in line.band for end in pair or ()]
    x_range, y_range = _log_range(sizes, 0.12), _log_range(rates, 0.08)
    traces = [_ideal_trace(data, slope, sizes) for slope in data.ideal]
    for number, line in enumerate(data.lines):
        traces += _line_traces(data, line, number)
    if data.points:
        traces.append(_published_trace(data.points))
    ticks: Json = {"tickvals": _gpu_ticks(sizes), "ticktext": [count(tick) for tick in _gpu_ticks(sizes)]}
    slope = (y_range[1] - y_range[0]) / (x_range[1] - x_range[0]) * (1.0 if len(sizes) > 1 else 0.5)
    frame, narrow = _frame(slope, WIDTH_PX), _frame(slope, NARROW_WIDTH_PX)
    equal: Json = {"scaleanchor": "x", "scaleratio": 1, "constrain": "domain", "constraintoward": "bottom"}
    rate_axis = "speedup" if data.metric == "speedup" else "samples/s"
    parts = {
        "xaxis": axis(type="log", range=x_range, **ticks, anchor="y", showticklabels=False, constrain="domain"),
        "yaxis": axis(rate_axis, type="log", range=y_range, **_decade_ticks(rates), **equal),
        "xaxis2": axis("GPUs", type="log", range=x_range, **ticks, matches="x", anchor="y2"),
        "yaxis2": axis("efficiency", range=[0, _top(data)], tickformat=".0%"),
        "showlegend": True,
        "legend": legend(),
    }
    drawn = merged(layout(0, **parts), frame)
    return Figure(data.title, _subtitle(data), traces, drawn, narrow)


def _frame(slope: float, width_px: float) -> Json:
    """Return height and division of a figure whose upper plot has equal decades at this width."""
    upper_px = min(max(width_px * slope, 200.0), 430.0)
    height = round(upper_px + 230)
    split = 165 / height
    return {"height": height, "yaxis": {"domain": [split, 1.0]}, "yaxis2": {"domain": [0.0, split - 30 / height]}}


def _subtitle(data: Scaling) -> str:
    is_speedup = data.metric == "speedup"
    what, baseline = ("Speedup", f"; baseline: {data.basis}") if is_speedup else ("Training samples per second", "")
    band = f"; the pale band holds {percent(data.band_level)} of measurements" if data.band_level else ""
    band += f"; the dark one is the {percent(data.level)} interval of the mean" if data.level else ""
    points = "; outlined diamonds: published, offset from the line by the error of its metric" if data.points else ""
    return f"{what} against GPUs, both logarithmic{baseline}{band}{points}. Below: efficiency."


def _top(data: Scaling) -> float:
    return max(1.05, 1.08 * max(max(line.efficiency) for line in data.lines))


def _log_range(values: list[float] | list[int], pad: float) -> list[float]:
    low, high = log10(min(values)), log10(max(values))
    if high - low < 0.5:
        middle = (low + high) / 2
        low, high = middle - 0.25, middle + 0.25
    return [low - pad, high + pad]


def _gpu_ticks(sizes: list[int]) -> list[int]:
    """Return the sizes, thinned to those at least 0.13 decades apart."""
    ticks: list[int] = []
    for size in reversed(sizes):
        if not ticks or log10(ticks[-1] / size) > 0.13:
            ticks.append(size)
    return ticks[::-1]


def _decade_ticks(values: list[float]) -> Json:
    low, high = floor(log10(min(values))) - 1, ceil(log10(max(values))) + 1
    steps = (1, 2, 5) if high - low <= 6 else (1,)
    ticks = [step * 10.0**power for power in range(low, high) for step in steps]
    return {"tickvals": ticks, "ticktext": [count(float(f"{tick:.1g}")) for tick in ticks]}


def _ideal_name(data: Scaling, slope: float) -> str:
    """Return what an ideal line is of: the lines with this rate per GPU, where several have their own."""
    own = [line.label for line in data.lines if any(abs(slope / each - 1.0) < 0.01 for each in _ideal((line,)))]
    if len(data.ideal) == 1 or not own:
        return "ideal"
    return f"ideal, {plot_text(own[0])}{f' and {len(own) - 1} more' if len(own) > 1 else ''}"


def _ideal_trace(data: Scaling, slope: float, sizes: list[int]) -> Json:
    ends = [sizes[0] * 0.75, sizes[-1] * 1.33]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _ideal_name(data, slope),
        "showlegend": True,
        "x": ends,
        "y": [slope * end for end in ends],
        "line": {"color": "@muted", "width": 1.2, "dash": "dash"},
        "hoverinfo": "skip",
    }


def _covers(data: Scaling, number: int) -> bool:
    """Return whether a line would cover an earlier one: 1 % is less than the width of a line."""
    line = data.lines[number]
    return any(
        other.num_gpus == line.num_gpus
        and all(abs(one / two - 1.0) < 0.01 for one, two in zip(line.rate, other.rate, strict=True))
        for other in data.lines[:number]
    )


def _line_traces(data: Scaling, line: ScalingLine, number: int) -> list[Json]:
    """Return a line with its band and its efficiency; dashed with open markers where it covers another."""
    covers = _covers(data, number)
    name = plot_text(line.label) or "forecast"
    colour, marker = series_colour(number), series_marker(number)
    common = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "legendgroup": name,
        "x": line.num_gpus,
        "line": {"color": colour, "width": 2.5, **({"dash": "dash"} if covers else {})},
        "marker": {"color": colour, "symbol": f"{marker}-open" if covers else marker, "size": 13 if covers else 8},
        "hoverinfo": "text",
    }
    hover = [_hover(data, line, place) for place in range(len(line.num_gpus))]
    efficiency = {"y": line.efficiency, "xaxis": "x2", "yaxis": "y2", "showlegend": False, "hovertext": hover}
    return [
        *_area(f"{name}, band", name, colour, 0.12, zip(line.num_gpus, line.band, strict=True)),
        *_area(f"{name}, interval", name, colour, 0.25, zip(line.num_gpus, _intervals(line), strict=True)),
        {**common, "y": line.rate, "hovertext": hover},
        {**common, **efficiency},
    ]


def _intervals(line: ScalingLine) -> list[tuple[float, float] | None]:
    """Return the interval at each point, None where it is not known or not above 0."""
    return [
        (low, high) if low is not None and high is not None and low > 0 else None
        for low, high in zip(line.low, line.high, strict=True)
    ]


def _area(
    name: str, group: str, colour: str, opacity: float, pairs: Iterable[tuple[int, tuple[float, float] | None]]
) -> list[Json]:
    """Return the area between the ends of pairs by number of GPUs; nothing where there are none."""
    known = [(number, pair) for number, pair in pairs if pair is not None]
    if not known:
        return []
    around = [(number, high) for number, (_, high) in known] + [(number, low) for number, (low, _) in known[::-1]]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "legendgroup": group,
            "showlegend": False,
            "x": [number for number, _ in around],
            "y": [rate for _, rate in around],
            "fill": "toself",
            "fillcolor": colour,
            "opacity": opacity,
            "line": {"width": 0},
            "hoverinfo": "skip",
        }
    ]


def _published_trace(points: tuple[PublishedPoint, ...]) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "published",
        "x": [point.num_gpus for point in points],
        "y": [point.rate for point in points],
        "hovertext": [point.text for point in points],
        "hoverinfo": "text",
        "marker": {"symbol": "diamond-open", "size": 12, "color": "@ink", "line": {"width": 2, "color": "@ink"}},
    }


def _hover(data: Scaling, line: ScalingLine, place: int) -> str:
    rate = line.rate[place]
    what = f"speedup {times(rate)}" if data.metric == "speedup" else f"{count(rate)} samples/s"
    words = [f"<b>{', '.join(filter(None, (gpus(line.num_gpus[place]), plot_text(line.label))))}</b>", what]
    low, high = line.low[place], line.high[place]
    if low is not None and high is not None:
        words.append(f"interval {count(low)} to {count(high)}")
    pair = line.band[place]
    if pair is not None and data.band_level is not None:
        words.append(f"{percent(data.band_level)} band {count(pair[0])} to {count(pair[1])}")
    return "<br>".join([*words, f"efficiency {percent(line.efficiency[place])}"])
