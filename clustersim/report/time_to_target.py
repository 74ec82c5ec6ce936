"""Time to the target against a number of the sweep, such as the bound on staleness or the steps between averages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, log10

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.learning_words import interval_of, level_words, title_words
from clustersim.report.options import Axis, SweepQuestion, question_of
from clustersim.report.palette import series_colour, series_dash, series_marker
from clustersim.report.trainings import TrainedRun, TrainingComparison, comparisons, rank
from clustersim.report.words import count, duration, plot_text, shortened, time_unit
from clustersim.results import Run, Sweep

MAX_LINES = 8

_LOG_FROM = 8.0
"""Ratio of the longest time to the shortest from which on the axis is logarithmic."""

_FEWEST = 3
"""Values from which on a number has a figure."""


@dataclass(frozen=True)
class TargetLine:
    """Runs that differ only in the number [num_values]: the time to the target with its interval, None if not known.

    `num_reached` and `seeds` say how many trainings reach it. `best` is the index of the shortest time, None without
    one.
    """

    label: str
    places: tuple[int, ...]
    seconds: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...]
    num_reached: tuple[int, ...]
    seeds: tuple[int, ...]

    @property
    def best(self) -> int | None:
        """Index of the shortest time."""
        known = [(time_s, place) for place, time_s in enumerate(self.seconds) if time_s is not None]
        return min(known)[1] if known else None


@dataclass(frozen=True)
class TimeToTarget:
    """The figure in numbers, one line per other setting; `values` are the labels of the number."""

    title: str
    name: str
    target: str
    values: tuple[str, ...]
    lines: tuple[TargetLine, ...]
    note: str


def time_to_target_data(sweep: Sweep) -> TimeToTarget | None:
    """Return the time to the target by a number of the sweep.

    None where no number has three values, or no training reaches its target, or the targets differ.
    """
    found = comparisons(sweep)
    targets = {(each.target_metric, each.target, each.task) for each in found}
    if len(targets) != 1 or found[0].target is None or found[0].target_metric is None:
        return None
    question = question_of(sweep)
    number = _number(question)
    if number is None:
        return None
    others = [each for each in (*question.choices, *question.conditions) if each.key != number.key]
    groups: dict[str, list[Run]] = {}
    for run in sweep.ran:
        if run.learning is not None:
            groups.setdefault(", ".join(each.label(run) for each in others), []).append(run)
    lines = [_line(label, runs, number) for label, runs in groups.items()]
    lines = [line for line in lines if len(line.places) >= _FEWEST]
    if not any(line.best is not None for line in lines):
        return None
    shown = sorted(lines, key=_shortest)[:MAX_LINES]
    note = f"The fastest {MAX_LINES} of {len(lines)} settings are drawn." if len(lines) > MAX_LINES else ""
    words = level_words(found[0].target_metric, found[0].target)
    title = _title(shown[0].label, groups[shown[0].label], number, found[0])
    return TimeToTarget(title, number.name, words, _values(number), tuple(shown), note)


def _number(question: SweepQuestion) -> Axis | None:
    """Return the first number with three values: of the choices, then of the conditions."""
    axes = (*question.choices, *question.conditions)
    return next((each for each in axes if each.is_numeric and len(each.values) >= _FEWEST), None)


def _values(number: Axis) -> tuple[str, ...]:
    """Return the labels without the name of the axis, which the figure has."""
    return tuple(label.removeprefix(f"{number.name} ") for label in number.labels)


def _line(label: str, runs: list[Run], number: Axis) -> TargetLine:
    placed = sorted(((number.place(run), run) for run in runs), key=lambda pair: pair[0])
    known = [(place, run.learning) for place, run in placed if run.learning is not None]
    return TargetLine(
        label,
        tuple(place for place, _ in known),
        tuple(learning.time_to_target_s for _, learning in known),
        tuple(interval_of(learning) for _, learning in known),
        tuple(learning.num_reached for _, learning in known),
        tuple(learning.seeds for _, learning in known),
    )


def _shortest(line: TargetLine) -> float:
    return float("inf") if line.best is None else line.seconds[line.best] or 0.0


def _title(label: str, runs: list[Run], number: Axis, main: TrainingComparison) -> str:
    """Return the sentence on the runs of one line: the value with the shortest time, and where none reaches it."""
    trained = [TrainedRun(number.label(run), run, run.learning) for run in runs if run.learning is not None]
    where = f"with {label}" if label else ""
    line = replace(main, where=where, trainings=tuple(sorted(trained, key=rank)), number=number)
    return title_words(line, main.metric)


def draw_time_to_target(data: TimeToTarget) -> Figure:
    """Draw a line for each setting, with whiskers; a cross at the top where the target is not reached."""
    times_s = [time_s for line in data.lines for time_s in line.seconds if time_s is not None]
    ends_s = [end for line in data.lines for pair in line.intervals if pair is not None for end in pair]
    unit, factor = time_unit(max(times_s))
    top = 1.12 * min(max([*times_s, *ends_s]), 3 * max(times_s)) / factor
    has_missed = any(time_s is None for line in data.lines for time_s in line.seconds)
    traces = [trace for number, line in enumerate(data.lines) for trace in _traces(data, line, number, factor, top)]
    ticks: Json = {"tickvals": list(range(len(data.values))), "ticktext": [plot_text(value) for value in data.values]}
    words: list[Json] = [
        {"xref": "paper", "x": 0, "xanchor": "left", "xshift": 4, "y": 1, "yref": "paper", "text": "not reached",
         "showarrow": False, "yanchor": "top", "font": {"size": 12, "color": "@muted"}}
    ]  # fmt: skip
    whiskers = "; whiskers: 95\u202f% interval over seeds" if ends_s else ""
    crosses = "; crosses at the top: not reached by every seed" if has_missed else ""
    drawn = layout(
        360,
        xaxis=axis(data.name, **ticks, range=[-0.4, len(data.values) - 0.6], showgrid=False),
        yaxis=axis(f"time to {data.target} ({unit})", **_scale([*times_s, *ends_s], factor, top, has_missed)),
        annotations=words if has_missed else [],
        showlegend=len(data.lines) > 1,
        legend=legend(),
    )
    under = f"Simulated time to {data.target} ({unit}), means{whiskers}{crosses}."
    return Figure(data.title, under, traces, drawn, {"xaxis": {"tickangle": 0}}, note=data.note)


def _scale(seconds: list[float], factor: float, top: float, has_missed: bool) -> Json:
    """Return a logarithmic axis where times differ by a factor of 8, otherwise one from 0; with room for a text."""
    least = min(each for each in seconds) / factor
    if least <= 0 or top < _LOG_FROM * least:
        return {"range": [0, (1.16 if has_missed else 1.04) * top]}
    room = 0.1 * log10(top / least)
    powers = range(floor(log10(least)), ceil(log10(top)) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [count(float(f"{tick:.1g}")) for tick in ticks],
        "range": [log10(least) - room, log10(top) + (1.5 if has_missed else 0.5) * room],
    }


def _traces(data: TimeToTarget, line: TargetLine, number: int, factor: float, top: float) -> list[Json]:
    colour = series_colour(number)
    known = [place for place, time_s in enumerate(line.seconds) if time_s is not None]
    seconds = [line.seconds[place] or 0.0 for place in known]
    pairs = [line.intervals[place] or (time_s, time_s) for place, time_s in zip(known, seconds, strict=True)]
    common: Json = {"type": "scatter", "name": plot_text(shortened(line.label, 34)) or "time to target",
                    "legendgroup": str(number), "hoverinfo": "text"}  # fmt: skip
    bars: Json = {
        "type": "data",
        "symmetric": False,
        "array": [(pair[1] - time_s) / factor for pair, time_s in zip(pairs, seconds, strict=True)],
        "arrayminus": [(time_s - pair[0]) / factor for pair, time_s in zip(pairs, seconds, strict=True)],
        "visible": any(line.intervals[place] is not None for place in known),
        "thickness": 1.4,
    }
    missed = [place for place in range(len(line.seconds)) if place not in known]
    drawn: Json = {
        **common,
        "mode": "lines+markers",
        "x": [line.places[place] for place in known],
        "y": [time_s / factor for time_s in seconds],
        "error_y": bars,
        "line": {"color": colour, "width": 2.2, "dash": series_dash(number)},
        "marker": {
            "color": colour,
            "symbol": series_marker(number),
            "opacity": 1,
            "size": [13 if place == line.best else 8 for place in known],
            "line": {"width": [2 if place == line.best else 0 for place in known], "color": "@ink"},
        },
        "hovertext": [_hover(data, line, place) for place in known],
    }
    crosses: Json = {
        **common,
        "mode": "markers",
        "showlegend": False,
        "x": [line.places[place] for place in missed],
        "y": [top] * len(missed),
        "marker": {"color": colour, "symbol": "x-thin", "size": 9, "line": {"width": 2, "color": colour}},
        "hovertext": [_hover(data, line, place) for place in missed],
        "cliponaxis": False,
    }
    return [drawn, *([crosses] if missed else [])]


def _hover(data: TimeToTarget, line: TargetLine, place: int) -> str:
    time_s, pair = line.seconds[place], line.intervals[place]
    name = ", ".join(filter(None, (f"{data.name} {data.values[line.places[place]]}", line.label)))
    words = [f"<b>{plot_text(name)}</b>"]
    words.append(f"{data.target} " + ("not reached" if time_s is None else f"after {duration(time_s)}"))
    if pair is not None:
        words.append(f"interval {duration(pair[0])} to {duration(pair[1])}")
    words.append(f"{line.num_reached[place]} of {line.seeds[place]} seeds reach it")
    return "<br>".join(words)
