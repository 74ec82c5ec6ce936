"""Time to train of the scenario's own model, from its gradient noise scale: where more GPUs stop to pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from clustersim.report.figure import Figure, FigureTable, Json, axis, layout, legend, log_ticks
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.series import run_label, series
from clustersim.report.words import amount, count, gpus, listed, long_duration, percent, plot_text
from clustersim.results import Run, Sweep
from clustersim.results.learning_scale import LearningScale

_UNITS = (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_MOST_NAMED, _MOST_TIMES = 3, 8


@dataclass(frozen=True)
class ScalePoint:
    """One run: its GPUs, batch, updates and seconds to train; small batches need `sample_efficiency` of its samples."""

    num_gpus: int
    batch: float
    steps: float
    time_s: float
    sample_efficiency: float
    rate: float | None


@dataclass(frozen=True)
class ScaleLine:
    """Runs that differ in the number of GPUs only; `critical_gpus` would have the critical batch.

    That is None where the batch does not grow with the GPUs.
    """

    label: str
    points: tuple[ScalePoint, ...]
    critical_gpus: float | None


@dataclass(frozen=True)
class ScaleFigure:
    """The figure in numbers, and why runs have no forecast."""

    title: str
    noise_scale: float
    unit: str
    lines: tuple[ScaleLine, ...]
    note: str


def learning_scale_data(sweep: Sweep) -> ScaleFigure | None:
    """Return the time to train against GPUs; None where no run has such a forecast."""
    forecasts = [run.learning_scale for run in sweep.ran if run.learning_scale]
    if not forecasts:
        return None
    found = [(one.label, [run for run in one.runs if _is_known(run)]) for one in series(sweep)]
    lines = tuple(_line(label, runs) for label, runs in found if runs)
    return ScaleFigure(_title(lines, forecasts[0]), forecasts[0].noise_scale, forecasts[0].unit, lines, _note(sweep))


def learning_scale_lines(sweep: Sweep) -> list[str]:
    """Return the time to train of each run on a line for each series, and why runs have none; for a terminal."""
    data = learning_scale_data(sweep)
    if data is None:
        return []
    lines = [data.title]
    for line in data.lines:
        shown = [f"{long_duration(point.time_s)} on {gpus(point.num_gpus)}" for point in line.points[:_MOST_TIMES]]
        lines.append(f"time to train{f' ({line.label})' if line.label else ''}: {listed(shown)}")
    return [f"another batch: {each}" for each in (*lines, data.note) if each]


def _is_known(run: Run) -> bool:
    return run.learning_scale is not None and run.learning_scale.time_s is not None


def _line(label: str, runs: Sequence[Run]) -> ScaleLine:
    points = [_point(run.num_gpus, run.learning_scale) for run in runs if run.learning_scale is not None]
    first, last = points[0], points[-1]
    grows = last.num_gpus > first.num_gpus and last.batch > 1.001 * first.batch
    noise_scale = next(run.learning_scale.noise_scale for run in runs if run.learning_scale is not None)
    critical = last.num_gpus * noise_scale / last.batch if grows else None
    return ScaleLine(label, tuple(points), critical)


def _point(num_gpus: int, scale: LearningScale) -> ScalePoint:
    efficiency, steps, time_s = scale.sample_efficiency or 0.0, scale.steps or 0.0, scale.time_s or 0.0
    return ScalePoint(num_gpus, scale.batch, steps, time_s, efficiency, scale.rate)


def _title(lines: Sequence[ScaleLine], scale: LearningScale) -> str:
    """Name the fastest run, and the GPUs from which on more of them gain little."""
    if not lines:
        return "The formula for another batch holds for none of the runs"
    line, best = min(((line, point) for line in lines for point in line.points), key=lambda pair: pair[1].time_s)
    name = f"{line.label[:1].upper()}{line.label[1:]}: " if line.label and len(lines) > 1 else ""
    fastest = f"{name}{long_duration(best.time_s)} to train on {gpus(best.num_gpus)}"
    critical = f"{amount(scale.noise_scale)} {scale.unit}"
    if line.critical_gpus is None:
        share = f"{percent(best.sample_efficiency)} of its samples would do with small batches"
        return f"{fastest}; {share}, as the batch is {amount(best.batch)} and the noise scale {critical}"
    number = gpus(max(1, round(line.critical_gpus)))
    return f"{fastest}; from {number} on (batch {critical}), twice the GPUs save less than 25 % of the updates".replace(
        "25 %", percent(0.25)
    )


def _note(sweep: Sweep) -> str:
    """Say which runs have no forecast, and why the first of them has none."""
    left_out = [
        (run, run.learning_scale.reason) for run in sweep.ran if run.learning_scale and run.learning_scale.reason
    ]
    if not left_out:
        return ""
    names = [run_label(sweep, run) for run, _ in left_out]
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return f"Without a forecast: {listed([*names[:_MOST_NAMED], *more])}. {left_out[0][1]}"


def draw_learning_scale(data: ScaleFigure) -> Figure:
    """Draw a line for each series on logarithmic axes, and dashed below it the time with the samples of the first."""
    seconds = [value for line in data.lines for value in (*(point.time_s for point in line.points), *_ideal_s(line))]
    unit, factor = next((each for each in _UNITS if max(seconds, default=1.0) >= 2 * each[1]), _UNITS[-1])
    traces: list[Json] = []
    for number, line in enumerate(data.lines):
        traces += _traces(line, number, factor, data.unit)
    sizes = sorted({point.num_gpus for line in data.lines for point in line.points})
    known = [line.critical_gpus for line in data.lines if line.critical_gpus is not None]
    inside = known[0] if known and sizes[0] <= known[0] <= sizes[-1] else None
    marks: Json = {}
    if inside is not None:
        line_at: Json = {"type": "line", "x0": inside, "x1": inside, "yref": "paper", "y0": 0, "y1": 1}
        marks["shapes"] = [{**line_at, "line": {"color": "@ink", "dash": "dot"}, "layer": "below"}]
        marks["annotations"] = [_mark_text(inside)]
    ticks: Json = {"tickvals": sizes, "ticktext": [count(size) for size in sizes]}
    drawn = layout(
        360,
        xaxis=axis("GPUs", type="log", **ticks),
        yaxis=axis(f"time to train ({unit})", type="log", **log_ticks([value / factor for value in seconds] or [1.0])),
        showlegend=len(data.lines) > 1,
        legend=legend(),
        **marks,
    )
    subtitle = (
        "Time to the loss of the known training, with the batch of each run and the best learning rate for it. Updates "
        "are in proportion to 1 + noise scale / batch (McCandlish et al., 2018), with a noise scale of "
        f"{amount(data.noise_scale)} {data.unit}. Dashed: with as many samples as the first point."
    )
    return Figure(data.title, subtitle, traces, drawn, note=data.note, table=_table(data))


def _mark_text(num_gpus: float) -> Json:
    return {
        "x": log10(num_gpus), "y": 1, "yref": "paper", "xanchor": "left", "xshift": 4, "showarrow": False,
        "text": "critical batch", "font": {"size": 12, "color": "@ink"},
    }  # fmt: skip


def _ideal_s(line: ScaleLine) -> list[float]:
    """Return the seconds of each point with the samples of the first one."""
    return [point.time_s * point.sample_efficiency / line.points[0].sample_efficiency for point in line.points]


def _traces(line: ScaleLine, number: int, factor: float, unit: str) -> list[Json]:
    name, colour = plot_text(line.label) or "forecast", series_colour(number)
    common: Json = {"type": "scatter", "x": [point.num_gpus for point in line.points], "legendgroup": name}
    hover = [_hover(line.label, point, unit) for point in line.points]
    return [
        {**common, "mode": "lines", "y": [value / factor for value in _ideal_s(line)], "showlegend": False,
         "hoverinfo": "skip", "line": {"color": colour, "width": 1.4, "dash": "dash"}},
        {**common, "mode": "lines+markers", "name": name, "y": [point.time_s / factor for point in line.points],
         "line": {"color": colour, "width": 2.5}, "hovertext": hover, "hoverinfo": "text",
         "marker": {"color": colour, "symbol": series_marker(number), "size": 9}},
    ]  # fmt: skip


def _hover(label: str, point: ScalePoint, unit: str) -> str:
    name = f"{plot_text(label)}, " if label else ""
    return (
        f"<b>{name}{gpus(point.num_gpus)}</b><br>{long_duration(point.time_s)}: {amount(point.steps)} updates of "
        f"{amount(point.batch)} {unit}<br>{percent(point.sample_efficiency)} of the samples would do with small batches"
    )


def _table(data: ScaleFigure) -> FigureTable:
    headings = ["run", "GPUs", f"batch ({data.unit})", "updates", "time to train (s)", "sample efficiency", "rate"]
    rows: list[list[str | float | None]] = [
        [line.label, point.num_gpus, point.batch, point.steps, point.time_s, point.sample_efficiency, point.rate]
        for line in data.lines
        for point in line.points
    ]
    return FigureTable(headings, rows)
