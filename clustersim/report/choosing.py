"""Choosing a strategy: what each one gives and what it costs, side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.series import largest, series_label, varied
from clustersim.report.words import count, gpus, percent, plot_text, shortened, times
from clustersim.results import Run, Sweep

MAX_ROWS = 32
"""Settings that fit a screen; of more, the fastest."""

_WORD = re.compile(r"[^\s{]*\{[^}]*\}|\S+")


@dataclass(frozen=True)
class Choice:
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
    choices: tuple[Choice, ...]
    level: float | None
    note: str


def choosing_data(sweep: Sweep, max_rows: int = MAX_ROWS) -> Choosing | None:
    """Return all strategies at the largest size; None where the sweep has no more than one.

    A rate is inverse to time, so that the interval of updates per second is that of samples per second, relatively.
    """
    runs = largest(sweep)
    keys = varied(sweep)
    if not any(key.partition(".")[0] == "strategy" for key in keys) or len(runs) < 2:
        return None
    labels = short_labels([series_label(run, keys) for run in runs])
    choices = [_choice(run, label) for run, label in zip(runs, labels, strict=True)]
    if len({choice.label for choice in choices}) < 2:
        return None
    note = f"The fastest {max_rows} of {count(len(choices))} are shown." if len(choices) > max_rows else ""
    levels = {run.interval.level for run in runs if run.interval}
    return Choosing(_title(choices), runs[0].num_gpus, tuple(choices[:max_rows]), max(levels, default=None), note)


def _choice(run: Run, label: str) -> Choice:
    pair = run.interval.samples_per_s if run.interval else None
    updates = 1.0 / run.update_s
    scaled = None if pair is None else (updates * pair[0] / run.samples_per_s, updates * pair[1] / run.samples_per_s)
    total = sum(run.gradients.values())
    return Choice(
        label=label,
        samples_per_s=run.samples_per_s,
        samples_interval=pair,
        updates_per_s=updates,
        updates_interval=scaled,
        staleness=float(run.staleness.get("mean") or 0.0),
        dropped=run.gradients.get("dropped", 0) / total if total else 0.0,
    )


def short_labels(labels: Sequence[str]) -> list[str]:
    """Return labels without the words `key=value` that tell nothing apart, where they stay different without.

    >>> short_labels(["async servers={on: own-hosts}", "softsync n=4 servers={on: own-hosts}", "softsync n=8"])
    ['async', 'softsync n=4', 'softsync n=8']
    """
    split = [_WORD.findall(label) for label in labels]
    values: dict[str, set[str]] = {}
    for word in (word for words in split for word in words if "=" in word):
        values.setdefault(word.partition("=")[0], set()).add(word.rstrip(","))
    for key in (key for key, found in values.items() if len(found) == 1 and not _tells(found)):
        shorter = [[word for word in words if word.partition("=")[0] != key or "=" not in word] for words in split]
        if all(shorter) and len({" ".join(words) for words in shorter}) == len({" ".join(words) for words in split}):
            split = shorter
    return [" ".join(words) for words in split]


def _tells(found: set[str]) -> bool:
    """Return whether the one value of a key is a number, which says how much of something there is."""
    return next(iter(found)).partition("=")[2].replace(".", "", 1).isdigit()


def _title(choices: list[Choice]) -> str:
    fastest = choices[0]
    fresh = [choice for choice in choices if choice.staleness < 0.05]
    what = f"{fastest.label} trains the most samples a second"
    if fastest.staleness < 0.05:
        dropped = f", dropping {percent(fastest.dropped)} of the gradients" if fastest.dropped else ""
        ratio = times(fastest.samples_per_s / choices[-1].samples_per_s)
        return f"{what}, with fresh gradients{dropped}: {ratio} the slowest"
    stale = f"{what}, with gradients {fastest.staleness:.1f} versions old"
    if not fresh:
        return stale
    return (
        f"{stale}: {times(fastest.samples_per_s / fresh[0].samples_per_s)} {fresh[0].label}, the best with fresh ones"
    )


def draw_choosing(data: Choosing) -> Figure:
    """Draw four columns of markers, a row for each strategy: samples and updates a second, staleness, dropped work."""
    rows = data.choices
    columns: list[tuple[str, list[float], list[tuple[float, float] | None]]] = [
        ("samples/s", [row.samples_per_s for row in rows], [row.samples_interval for row in rows]),
        ("updates/s", [row.updates_per_s for row in rows], [row.updates_interval for row in rows]),
        ("mean staleness (versions)", [row.staleness for row in rows], [None for _ in rows]),
        ("dropped gradients (%)", [100 * row.dropped for row in rows], [None for _ in rows]),
    ]
    width = 1 / len(columns)
    parts: Json = {}
    for number, (name, values, pairs) in enumerate(columns):
        longest = max([*values, *(pair[1] for pair in pairs if pair is not None)])
        key = f"xaxis{number + 1}" if number else "xaxis"
        domain = [number * width + (0.012 if number else 0), (number + 1) * width - 0.012]
        parts[key] = axis(
            name, range=[-0.03 * (longest or 1.0), 1.3 * (longest or 1.0)], domain=domain, nticks=4, tickformat=",~f"
        )
    places = list(range(len(rows)))
    labels = [plot_text(shortened(row.label, 34)) for row in rows]
    drawn = layout(
        100 + 32 * len(rows),
        yaxis=axis(tickvals=places, ticktext=labels, range=[len(rows) - 0.4, -0.6], fixedrange=True),
        **parts,
    )
    band = f"; whiskers: {percent(data.level)} interval over seeds" if data.level else ""
    under = f"At {gpus(data.num_gpus)}, a row for each setting{band}; staleness and drops are means."
    traces = [_column(data, number, *column) for number, column in enumerate(columns)]
    short = [plot_text(shortened(row.label, 15)) for row in rows]
    narrow, narrow_traces = _narrow(data, drawn, traces, short)
    return Figure(data.title, under, traces, drawn, narrow, note=data.note, narrow_traces=narrow_traces)


def _narrow(data: Choosing, drawn: Json, traces: list[Json], short: list[str]) -> tuple[Json, list[Json]]:
    """Return what a phone shows: samples per second and staleness, without room for more."""
    narrow = {
        "xaxis": {"domain": [0.0, 0.5], "nticks": 3},
        "xaxis3": {**drawn["xaxis3"], "domain": [0.56, 1.0], "nticks": 3, "title": {"text": "staleness"}},
        "xaxis2": {"visible": False, "domain": [0.0, 0.01]},
        "xaxis4": {"visible": False, "domain": [0.0, 0.01]},
        "yaxis": {"ticktext": short},
    }
    return narrow, [traces[0], traces[2]]


def _column(
    data: Choosing, number: int, name: str, values: list[float], pairs: list[tuple[float, float] | None]
) -> Json:
    known = [pair or (value, value) for pair, value in zip(pairs, values, strict=True)]
    bars: Json = {
        "type": "data",
        "symmetric": False,
        "array": [high - value for (_, high), value in zip(known, values, strict=True)],
        "arrayminus": [value - low for (low, _), value in zip(known, values, strict=True)],
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
