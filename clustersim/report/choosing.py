"""Comparison of strategies: throughput, updates, staleness and dropped gradients side by side."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, names_over
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.series import largest, of_model, setting, varied
from clustersim.report.words import count, gpus, percent, plot_text, shortened, times
from clustersim.results import Run, Sweep

MAX_ROWS = 32
"""Settings that fit a screen; of more, the fastest are shown."""


@dataclass(frozen=True)
class StrategyRow:
    """One setting at the largest size. `dropped` is a share of all gradients; pairs are intervals over seeds."""

    label: str
    samples_per_s: float
    samples_interval: tuple[float, float] | None
    updates_per_s: float
    updates_interval: tuple[float, float] | None
    staleness: float
    dropped: float


@dataclass(frozen=True)
class Choosing:
    """The figure in numbers, the most samples per second first."""

    title: str
    num_gpus: int
    choices: tuple[StrategyRow, ...]
    level: float | None
    note: str
    quiet: str


def choosing_data(sweep: Sweep, max_rows: int = MAX_ROWS) -> Choosing | None:
    """Return all strategies of one model at the largest size; None where the sweep has only one.

    The relative interval of updates per second is that of samples per second: both are rates of the same time.
    """
    runs = largest(sweep)
    keys = varied(sweep)
    if not any(key.partition(".")[0] == "strategy" for key in keys) or len(runs) < 2:
        return None
    choices = [_choice(run, setting(sweep, run)) for run in runs]
    if len({choice.label for choice in choices}) < 2:
        return None
    shown = f"The fastest {max_rows} of {count(len(choices))} are shown." if len(choices) > max_rows else ""
    note = " ".join(filter(None, (shown, f"Only runs{of_model(sweep)} are compared." if of_model(sweep) else "")))
    levels = {run.interval.level for run in runs if run.interval}
    alike = all(choice.staleness < 0.05 and not choice.dropped for choice in choices)
    quiet = "All gradients are fresh and none is dropped: settings differ in speed alone." if alike else ""
    shown_choices = tuple(choices[:max_rows])
    return Choosing(_title(choices), runs[0].num_gpus, shown_choices, max(levels, default=None), note, quiet)


def _choice(run: Run, label: str) -> StrategyRow:
    pair = run.interval.samples_per_s if run.interval else None
    updates = 1.0 / run.update_s
    scaled = None if pair is None else (updates * pair[0] / run.samples_per_s, updates * pair[1] / run.samples_per_s)
    total = sum(run.gradients.values())
    return StrategyRow(
        label=label,
        samples_per_s=run.samples_per_s,
        samples_interval=pair,
        updates_per_s=updates,
        updates_interval=scaled,
        staleness=float(run.staleness.get("mean") or 0.0),
        dropped=run.gradients.get("dropped", 0) / total if total else 0.0,
    )


def _title(choices: list[StrategyRow]) -> str:
    fastest = choices[0]
    fresh = [choice for choice in choices if choice.staleness < 0.05]
    what = f"{fastest.label[:1].upper()}{fastest.label[1:]} trains the most samples per second"
    if fastest.staleness < 0.05:
        dropped = f", dropping {percent(fastest.dropped)} of the gradients" if fastest.dropped else ""
        ratio = times(fastest.samples_per_s / choices[-1].samples_per_s)
        return f"{what}, with fresh gradients{dropped}: {ratio} the slowest setting"
    stale = f"{what}, with gradients {fastest.staleness:.1f} versions old"
    if not fresh:
        return stale
    factor = times(fastest.samples_per_s / fresh[0].samples_per_s)
    return f"{stale}: {factor} {fresh[0].label}, the best with fresh gradients"


def draw_choosing(data: Choosing) -> Figure:
    """Draw columns of markers, one row per strategy: samples and updates per second, staleness, dropped gradients.

    Staleness and dropped gradients have a column only where there are any.
    """
    rows = data.choices
    columns = _columns(data)
    stale, dropped = (any(getattr(row, name) for row in rows) for name in ("staleness", "dropped"))
    parts = {f"xaxis{number + 1}" if number else "xaxis": _axis(column, number, len(columns))
             for number, column in enumerate(columns)}  # fmt: skip
    places = list(range(len(rows)))
    drawn = layout(
        100 + 32 * len(rows),
        yaxis=axis(
            tickvals=places,
            ticktext=[plot_text(shortened(row.label, 34)) for row in rows],
            range=[len(rows) - 0.4, -0.6],
            fixedrange=True,
        ),
        **parts,
    )
    band = f"; whiskers: {percent(data.level)} interval over seeds" if data.level else ""
    means = " and ".join(["staleness"] * stale + ["dropped gradients"] * dropped)
    rest = f"{means}: means" if means else "all gradients are fresh when applied, and none is dropped"
    under = f"At {gpus(data.num_gpus)}, one row per setting{band}; {rest}."
    traces = [_trace(data, column, number) for number, column in enumerate(columns)]
    narrow, narrow_traces = _narrow(data, columns)
    return Figure(
        data.title, under, traces, drawn, narrow, note=data.note, narrow_traces=narrow_traces, quiet=data.quiet
    )


Column = tuple[str, list[float], list[tuple[float, float] | None]]


def _columns(data: Choosing) -> list[Column]:
    """Return title, values and intervals of each column that has nonzero values."""
    rows = data.choices
    unknown = [None for _ in rows]
    columns: list[Column] = [
        ("samples/s", [row.samples_per_s for row in rows], [row.samples_interval for row in rows]),
        ("updates/s", [row.updates_per_s for row in rows], [row.updates_interval for row in rows]),
    ]
    if any(row.staleness for row in rows):
        columns.append(("mean staleness (versions)", [row.staleness for row in rows], [*unknown]))
    if any(row.dropped for row in rows):
        columns.append(("dropped gradients (%)", [100 * row.dropped for row in rows], [*unknown]))
    return columns


def _axis(column: Column, number: int, num_columns: int) -> Json:
    """Return the axis of a column, from below 0 to beyond the longest whisker, with space for the numbers."""
    name, values, pairs = column
    longest = max([*values, *(pair[1] for pair in pairs if pair is not None)])
    width = 1 / num_columns
    domain = [number * width + (0.012 if number else 0), (number + 1) * width - 0.012]
    return axis(name, range=[-0.03 * longest, 1.3 * longest], domain=domain, nticks=4, tickangle=0, tickformat=",~f")


def _narrow(data: Choosing, columns: list[Column]) -> tuple[Json, list[Json]]:
    """Return layout and traces for a phone: samples per second and staleness only; names above the rows."""
    second = next((place for place, column in enumerate(columns) if "staleness" in column[0]), 1)
    shown = [columns[0], columns[second]]
    narrow: Json = {**names_over([row.label for row in data.choices]), "height": 100 + 46 * len(data.choices)}
    for number, column in enumerate(shown):
        narrow[f"xaxis{number + 1}" if number else "xaxis"] = {
            **_axis(column, number, 2),
            "nticks": 3,
            "range": [-0.03 * max(column[1]), 1.45 * max(column[1])],
            "title": {"text": column[0].removeprefix("mean ")},
        }
    for number in range(len(shown), len(columns)):
        narrow[f"xaxis{number + 1}"] = {"visible": False, "domain": [0.0, 0.01]}
    return narrow, [{**_trace(data, column, number), "textposition": "bottom right"}
                    for number, column in enumerate(shown)]  # fmt: skip


def _trace(data: Choosing, column: Column, number: int) -> Json:
    name, values, pairs = column
    known = [pair or (value, value) for pair, value in zip(pairs, values, strict=True)]
    bars: Json = {
        "type": "data",
        "symmetric": False,
        "array": [high - value for (_, high), value in zip(known, values, strict=True)],
        "arrayminus": [value - low for (low, _), value in zip(known, values, strict=True)],
        "color": "@muted",
        "thickness": 1.6,
        "width": 4,
        "visible": any(pairs),
    }
    shown = [_text(name, value) for value in values]
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": values,
        "y": list(range(len(values))),
        "xaxis": f"x{number + 1}" if number else "x",
        "error_x": bars,
        "text": [f"  {text}" for text in shown],
        "textposition": "top right" if any(pairs) else "middle right",
        "textfont": {"size": 11},
        "hovertext": [
            f"<b>{plot_text(row.label)}</b><br>{name.partition(' (')[0]}: {text}{_between(pair)}"
            for row, text, pair in zip(data.choices, shown, pairs, strict=True)
        ],
        "hoverinfo": "text",
        "marker": {
            "size": 9,
            "color": [series_colour(place) for place in range(len(values))],
            "symbol": [series_marker(place) for place in range(len(values))],
        },
        "cliponaxis": False,
    }


def _text(name: str, value: float) -> str:
    if "%" in name:
        return percent(value / 100)
    return f"{value:.1f}" if "staleness" in name else count(float(f"{value:.4g}"))


def _between(pair: tuple[float, float] | None) -> str:
    return "" if pair is None else f"<br>interval {count(pair[0])} to {count(pair[1])}"
