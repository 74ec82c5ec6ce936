"""Loss and accuracy against simulated time, and beside it against samples: which run learns fastest, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, floor, log10

import numpy as np

from clustersim.report.direct_labels import label_places
from clustersim.report.figure import Figure, FigureTable, Json, axis, layout, legend
from clustersim.report.leaders import Metric, error_of, seed_curves, value_of
from clustersim.report.learning_words import level_words, title_words, value_words
from clustersim.report.palette import series_colour, series_dash, series_marker
from clustersim.report.trainings import TrainedRun, TrainingComparison, comparisons
from clustersim.report.words import count, duration, plot_text, plural, shortened, time_unit
from clustersim.results import Sweep
from clustersim.results.learning import Curve, CurvePoint

MAX_CURVES = 8
"""Curves that can be told apart; of more, the best ones and the last are drawn."""

MAX_POINTS = 120
"""Points of a curve; of more, evenly spaced ones are drawn."""

_PLOT_PX = (530.0, 370.0)
"""Size of the curves against time on a wide screen, for the places of names."""

_MOST_MARKERS = 9
_HEADROOM = 1.3
"""Factor of the axis of time beyond the slowest run that reaches the target."""

_PAD = 0.06
"""Space above and below the curves, as a share of the axis: enough for the name of the target."""

_DIVERGED = 3.0
"""Factor of the loss of the first weights above which curves leave the figure."""


@dataclass(frozen=True)
class LearningLine:
    """One run [num_points]: the mean over seeds, of every evaluation and of the best so far, and the seeds' ends of it.

    Values are losses or accuracies. `samples` are those of the task whose gradients are applied.
    """

    label: str
    seconds: list[float]
    samples: list[float]
    values: list[float]
    best: list[float]
    low: list[float]
    high: list[float]
    time_to_target_s: float | None
    samples_to_target: float | None
    diverged: int


@dataclass(frozen=True)
class LearningCurves:
    """The figure in numbers, the best run first."""

    title: str
    where: str
    task: str
    metric: Metric
    target: float | None
    lines: tuple[LearningLine, ...]
    seeds: int
    note: str


def learning_curves_data(sweep: Sweep) -> list[LearningCurves]:
    """Return the curves of each comparison and metric, those of the main conditions and of the target first."""
    return [_curves(each, metric) for each in comparisons(sweep) for metric in each.metrics]


def _curves(comparison: TrainingComparison, metric: Metric) -> LearningCurves:
    shown, left_out = chosen(comparison.trainings)
    notes = []
    if left_out:
        total = len(comparison.trainings)
        notes.append(f"The best {len(shown) - 1} of {count(total)} runs and the last one are drawn.")
    if comparison.num_untrained:
        notes.append(
            f"{plural(comparison.num_untrained, 'run')} without training {_is(comparison.num_untrained)} left out."
        )
    return LearningCurves(
        title=title_words(comparison, metric),
        where=comparison.where,
        task=comparison.task,
        metric=metric,
        target=comparison.target if metric == comparison.target_metric else None,
        lines=tuple(_line(each, metric) for each in shown),
        seeds=max(each.learning.seeds for each in shown),
        note=" ".join(notes),
    )


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def chosen(trainings: Sequence[TrainedRun], most: int = MAX_CURVES) -> tuple[list[TrainedRun], int]:
    """Return the best trainings and the last one, and how many are left out."""
    if len(trainings) <= most:
        return list(trainings), 0
    return [*trainings[: most - 1], trainings[-1]], len(trainings) - most


def _line(training: TrainedRun, metric: Metric) -> LearningLine:
    """Return a line; its seeds are the mean curve alone where their evaluations are not known or are others."""
    learning = training.learning
    forward = [_forward(curve) for curve in seed_curves(learning)]
    curves = [curve for curve in forward if len(curve) == len(learning.curve)] or [learning.curve]
    values = np.array([[_value(point, metric) for point in curve] for curve in curves])
    best = (np.minimum if metric == "loss" else np.maximum).accumulate(values, axis=1)
    places = _thinned(len(learning.curve))
    is_target = learning.target_metric == metric
    return LearningLine(
        label=training.label or "the training",
        seconds=[learning.curve[place].seconds for place in places],
        samples=[learning.curve[place].updates * learning.samples_per_update for place in places],
        values=values.mean(axis=0)[places].tolist(),
        best=best.mean(axis=0)[places].tolist(),
        low=best.min(axis=0)[places].tolist(),
        high=best.max(axis=0)[places].tolist(),
        time_to_target_s=learning.time_to_target_s if is_target else None,
        samples_to_target=learning.samples_to_target if is_target else None,
        diverged=learning.diverged,
    )


def _forward(curve: Curve) -> Curve:
    """Return a curve without the updates that are made again after a failure."""
    most = [-1, *accumulate((point.updates for point in curve), max)]
    return tuple(point for point, before in zip(curve, most, strict=False) if point.updates > before)


def _value(point: CurvePoint, metric: Metric) -> float:
    value = value_of(point, metric)
    assert value is not None, metric  # comparisons have a metric only where all trainings have it
    return value


def _thinned(number: int) -> list[int]:
    """Return at most MAX_POINTS places of so many points, with the first and the last."""
    if number <= MAX_POINTS:
        return list(range(number))
    return [round(place * (number - 1) / (MAX_POINTS - 1)) for place in range(MAX_POINTS)]


def learning_curves_figures(sweep: Sweep) -> tuple[Figure, ...]:
    """Return a figure for each comparison and metric."""
    return tuple(draw_learning_curves(data) for data in learning_curves_data(sweep))


def draw_learning_curves(data: LearningCurves) -> Figure:
    """Draw a curve for each run against seconds and, to the right (narrow: below), against samples of the task."""
    unit, factor = time_unit(max((line.seconds[-1] for line in data.lines if line.seconds), default=0.0))
    scale = _Scale(data)
    traces = [trace for number, line in enumerate(data.lines) for trace in _traces(data, scale, line, number, factor)]
    traces += _marks(data, scale, factor)
    ends = {
        "xaxis": _end_s(data) / factor,
        "xaxis2": max((x for line in data.lines for x in line.samples), default=1.0),
    }
    value = axis(data.metric, **scale.axis)
    parts: Json = {
        "xaxis": axis(f"simulated time ({unit})", range=[0, ends["xaxis"]], domain=[0.0, 0.6], showgrid=False),
        "yaxis": value,
        "xaxis2": axis(
            "samples of the task",
            range=[0, 1.01 * ends["xaxis2"]],
            domain=[0.64, 1.0],
            showgrid=False,
            nticks=4,
            anchor="y2",
        ),
        "yaxis2": {**value, "title": {"text": ""}, "matches": "y", "showticklabels": False, "anchor": "x2"},
        "shapes": _target_lines(data, scale),
        "annotations": [*_target_words(data, scale), *_names(data, scale, factor, ends["xaxis"])],
        "showlegend": True,
        "legend": legend(),
    }
    narrow: Json = {
        "height": 640 + 20 * len(data.lines),
        "xaxis": {"domain": [0.0, 1.0], "anchor": "y", "nticks": 5},
        "yaxis": {"domain": [0.47, 1.0]},
        "xaxis2": {"domain": [0.0, 1.0], "nticks": 4},
        "yaxis2": {"domain": [0.0, 0.37], "showticklabels": True},
        "annotations": _target_words(data, scale),
    }
    under = _subtitle(data, scale)
    label = ", ".join(filter(None, (data.metric, data.where)))
    drawn = layout(470, **parts)
    return Figure(data.title, under, traces, drawn, narrow, label=label, note=data.note, table=_table(data))


def _subtitle(data: LearningCurves, scale: _Scale) -> str:
    seeds = f", mean and range of {data.seeds} seeds" if data.seeds > 1 else ", one seed"
    rings = (
        "; large markers: the target is reached"
        if any(line.time_to_target_s is not None for line in data.lines)
        else ""
    )
    spaced = "; the axis is spaced by 1 − accuracy" if data.metric == "accuracy" else ""
    what = f"{data.metric.capitalize()} of {data.task} against simulated time, and against the samples that are applied"
    thin = "; thin lines: every evaluation" if any(line.values != line.best for line in data.lines) else ""
    return f"{what}: the best so far{seeds}{thin}{rings}{spaced if scale.is_log else ''}."


class _Scale:
    """The axis of loss or accuracy: logarithmic in the error (loss, or 1 - accuracy) where it spans a factor of 3.

    A place on the axis is minus the decimal logarithm of the error for accuracy, so that better is higher.
    """

    def __init__(self, data: LearningCurves):
        self.metric = data.metric
        values = [value for line in data.lines for value in line.values] + (
            [] if data.target is None else [data.target]
        )
        errors = sorted(error_of(value, data.metric) for value in values)
        positive = [error for error in errors if error > 0]
        self._least = (positive[0] / 2 if errors[0] <= 0 else positive[0]) if positive else 1e-3
        first = max((error_of(line.values[0], data.metric) for line in data.lines if line.values), default=1.0)
        self._most = min(max(errors[-1], self._least), max(_DIVERGED * first, self._least))
        self.is_log = self._most > 3 * self._least
        self.axis = self._axis()

    def place(self, value: float) -> float:
        """Return where a value is on the axis."""
        if not self.is_log:
            return value
        power = log10(max(error_of(value, self.metric), self._least))
        return -power if self.metric == "accuracy" else power

    def _axis(self) -> Json:
        if not self.is_log:
            return {"range": self._linear_range()}
        low, high = log10(self._least), log10(self._most)
        pad = _PAD * (high - low)
        ticks = self._ticks()
        ends = [-high - pad, -low + pad] if self.metric == "accuracy" else [low - pad, high + pad]
        return {
            "range": ends,
            "tickvals": [round(self.place(tick), 6) for tick in ticks],
            "ticktext": [f"{tick:g}" for tick in ticks],
        }

    def _linear_range(self) -> list[float]:
        ends = [self._least, self._most] if self.metric == "loss" else [1 - self._most, 1 - self._least]
        pad = _PAD * (ends[1] - ends[0]) or _PAD
        return [ends[0] - pad, ends[1] + pad]

    def _ticks(self) -> list[float]:
        """Return losses or accuracies of round errors on the axis."""
        powers = range(floor(log10(self._least)), ceil(log10(self._most)) + 1)
        steps = (1, 2, 5) if self._most < 1e3 * self._least else (1,)
        errors = [step * 10.0**power for power in powers for step in steps]
        inside = [error for error in errors if 0.95 * self._least <= error <= 1.05 * self._most]
        return [round(error if self.metric == "loss" else 1.0 - error, 9) for error in inside]


def _end_s(data: LearningCurves) -> float:
    """Return the end of the axis of time: of the last curve, or little beyond the slowest run at the target."""
    ends = [line.seconds[-1] for line in data.lines if line.seconds]
    times_s = [line.time_to_target_s for line in data.lines if line.time_to_target_s]
    last = max(ends, default=1.0)
    if not times_s:
        return last or 1.0
    return min(last, max(_HEADROOM * max(times_s), min(ends))) or 1.0


def _traces(data: LearningCurves, scale: _Scale, line: LearningLine, number: int, factor: float) -> list[Json]:
    """Return the band of the seeds and the mean, against seconds and against samples."""
    seconds = [_short(value / factor) for value in line.seconds]
    samples = [_short(value) for value in line.samples]
    mean, best = ([_short(scale.place(value)) for value in values] for values in (line.values, line.best))
    found: list[Json] = []
    if any(high > low for low, high in zip(line.low, line.high, strict=True)):
        ends = [[_short(scale.place(value)) for value in values] for values in (line.low, line.high)]
        found += [_band(seconds, ends, number, ""), _band(samples, ends, number, "2")]
    if mean != best:
        found += [_thin(seconds, mean, number, ""), _thin(samples, mean, number, "2")]
    name = plot_text(shortened(line.label, 34))
    common: Json = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"{name}{_after(data, line)}",
        "legendgroup": str(number),
        "y": best,
        "text": [value_words(data.metric, value) for value in line.best],
        "line": {"color": series_colour(number), "width": 2.2, "dash": series_dash(number)},
        "marker": {
            "color": series_colour(number),
            "symbol": series_marker(number),
            "size": 8,
            "maxdisplayed": _MOST_MARKERS + number % 3,
        },
    }
    unit = "s" if factor == 1.0 else time_unit(factor)[0]
    hover = f"<b>{name}</b><br>%{{x:.4g}} {{}}: {data.metric} %{{text}}<extra></extra>"
    return [
        *found,
        {**common, "x": seconds, "hovertemplate": hover.replace("{}", unit)},
        {**common, "x": samples, "xaxis": "x2", "yaxis": "y2", "showlegend": False,
         "hovertemplate": hover.replace("{}", "samples").replace(".4g", ",.0f")},
    ]  # fmt: skip


def _after(data: LearningCurves, line: LearningLine) -> str:
    """Return what the legend says after the name of a run: when it reaches the target."""
    if line.diverged:
        return ", diverged"
    if data.target is None or all(each.time_to_target_s is None for each in data.lines):
        return ""
    return ", not reached" if line.time_to_target_s is None else f", {duration(line.time_to_target_s)}"


def _short(value: float) -> float:
    """Return a number with the digits that a drawing needs."""
    return float(f"{value:.5g}")


def _thin(x: list[float], y: list[float], number: int, place: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "xaxis": f"x{place}",
        "yaxis": f"y{place}",
        "line": {"color": series_colour(number), "width": 1},
        "opacity": 0.35,
        "legendgroup": str(number),
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _band(x: list[float], ends: list[list[float]], number: int, place: str) -> Json:
    low, high = ends
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*x, *x[::-1]],
        "y": [*high, *low[::-1]],
        "xaxis": f"x{place}",
        "yaxis": f"y{place}",
        "fill": "toself",
        "fillcolor": series_colour(number),
        "opacity": 0.13,
        "line": {"width": 0},
        "legendgroup": str(number),
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _marks(data: LearningCurves, scale: _Scale, factor: float) -> list[Json]:
    """Return the rings where runs reach the target, at mean seconds and at mean samples."""
    if data.target is None:
        return []
    found: list[Json] = []
    y = _short(scale.place(data.target))
    for number, line in enumerate(data.lines):
        if line.time_to_target_s is None or line.samples_to_target is None:
            continue
        words = f"<b>{plot_text(line.label)}</b><br>{level_words(data.metric, data.target)} after "
        ring: Json = {
            "type": "scatter",
            "mode": "markers",
            "y": [y],
            "legendgroup": str(number),
            "showlegend": False,
            "hoverinfo": "text",
            "marker": {
                "symbol": f"{series_marker(number)}",
                "size": 13,
                "color": series_colour(number),
                "line": {"width": 2, "color": "@ink"},
            },
            "cliponaxis": False,
        }
        seconds, samples = line.time_to_target_s, line.samples_to_target
        found.append({**ring, "x": [_short(seconds / factor)], "hovertext": [f"{words}{duration(seconds)}"]})
        found.append(
            {
                **ring,
                "x": [_short(samples)],
                "xaxis": "x2",
                "yaxis": "y2",
                "hovertext": [f"{words}{count(samples)} samples"],
            }
        )
    return found


def _target_lines(data: LearningCurves, scale: _Scale) -> list[Json]:
    if data.target is None:
        return []
    style: Json = {"type": "line", "x0": 0, "x1": 1, "line": {"color": "@ink", "width": 1.4, "dash": "dash"}}
    y = scale.place(data.target)
    return [
        {**style, "xref": f"x{place} domain", "yref": f"y{place}", "y0": y, "y1": y, "layer": "below"}
        for place in ("", "2")
    ]


def _target_words(data: LearningCurves, scale: _Scale) -> list[Json]:
    if data.target is None:
        return []
    return [
        {
            "xref": "x domain",
            "x": 0.0,
            "xanchor": "left",
            "xshift": 4,
            "yref": "y",
            "y": scale.place(data.target),
            "yanchor": "bottom",
            "showarrow": False,
            "text": f"target {value_words(data.metric, data.target)}",
            "font": {"size": 12, "color": "@ink"},
        }
    ]


def _names(data: LearningCurves, scale: _Scale, factor: float, end: float) -> list[Json]:
    """Return the names of the curves against time beside them, in their colours, where there is room."""
    width, height = _PLOT_PX
    low, high = scale.axis["range"]

    def pixels(x: float, y: float) -> tuple[float, float]:
        return x / end * width, (high - y) / (high - low) * height

    curves, kept = [], []
    for line in data.lines:
        shown = [place for place, seconds in enumerate(line.seconds) if seconds / factor <= end]
        kept.append(shown)
        points = [pixels(line.seconds[place] / factor, scale.place(line.best[place])) for place in shown]
        curves.append(np.array(points).reshape(-1, 2))
    taken = []
    if data.target is not None:
        y = pixels(0.0, scale.place(data.target))[1]
        taken = [
            np.array([(x, y) for x in np.arange(0.0, width, 6.0)]),
            np.array([(x, y - 9) for x in range(0, 90, 6)]),
        ]
    found: list[Json] = []
    places = label_places(curves, [shortened(line.label, 34) for line in data.lines], _PLOT_PX, taken)
    for number, (line, shown, place) in enumerate(zip(data.lines, kept, places, strict=True)):
        if place is None or len(data.lines) == 1:
            continue
        point = shown[place.point]
        found.append(
            {
                "x": _short(line.seconds[point] / factor),
                "y": _short(scale.place(line.best[point])),
                "xanchor": "right" if place.is_left else "left",
                "yanchor": "bottom" if place.is_above else "top",
                "xshift": -6 if place.is_left else 6,
                "showarrow": False,
                "text": plot_text(shortened(line.label, 34)),
                "font": {"size": 12, "color": series_colour(number)},
            }
        )
    return found


def _table(data: LearningCurves) -> FigureTable:
    """Return a row for each point of each run."""
    headings = ["run", "simulated time (s)", "samples of the task", data.metric, f"best {data.metric} so far"]
    headings += [f"{headings[-1]}, lowest seed", f"{headings[-1]}, highest seed"] if data.seeds > 1 else []
    rows: list[list[str | float | None]] = []
    for line in data.lines:
        columns = [
            line.seconds,
            line.samples,
            line.values,
            line.best,
            *([line.low, line.high] if data.seeds > 1 else []),
        ]
        rows += [[line.label, *map(_short, row)] for row in zip(*columns, strict=True)]
    return FigureTable(headings, rows)
