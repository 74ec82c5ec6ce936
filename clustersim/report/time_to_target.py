"""Time to the target against a number of the sweep, such as the bound on staleness or the steps between averages."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.learning_words import equal_words, first_at_target, level_words
from clustersim.report.options import Axis, SweepQuestion, question_of
from clustersim.report.palette import series_colour, series_dash, series_marker
from clustersim.report.trainings import TrainingComparison, comparisons
from clustersim.report.words import duration, listed, plot_text, shortened, time_unit
from clustersim.results import Run, Sweep

MAX_LINES = 8

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
    title = _title(shown, number, words, found)
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
        tuple(learning.time_to_target_interval for _, learning in known),
        tuple(learning.num_reached for _, learning in known),
        tuple(learning.seeds for _, learning in known),
    )


def _shortest(line: TargetLine) -> float:
    return float("inf") if line.best is None else line.seconds[line.best] or 0.0


def _title(lines: list[TargetLine], number: Axis, target: str, found: tuple[TrainingComparison, ...]) -> str:
    """Return the value with the shortest time, and from which one on the target is not reached."""
    line = lines[0]
    best = line.best
    assert best is not None  # lines are sorted by the shortest time, and one has it
    where = f"with {line.label}, " if line.label else ""
    name, seconds = number.labels[line.places[best]], line.seconds[best] or 0.0
    alike = _alike(found, number.labels[line.places[best]]) if len(lines) == 1 else ""
    reached = [place for place, time_s in enumerate(line.seconds) if time_s is not None]
    above, below = len(line.seconds) - 1 - reached[-1], reached[0]
    ends = []
    if above:
        ends.append(f"beyond {number.labels[line.places[reached[-1]]]}")
    if below:
        ends.append(f"below {number.labels[line.places[reached[0]]]}")
    if len(reached) == 1:
        title = f"{where}{target} is reached with {name} only, after {duration(seconds)}"
    else:
        missed = f"; {listed(ends)} it is not reached" if ends else ""
        title = f"{where}{target} is reached first with {name}, after {duration(seconds)}{alike}{missed}"
    return f"{title[:1].upper()}{title[1:]}"


def _alike(found: tuple[TrainingComparison, ...], best: str) -> str:
    """Name the values that are equal to the best one within the seeds."""
    at_target = first_at_target(found[0])
    if len(found) > 1 or at_target is None or len(at_target.first) < 2:
        return ""
    names = [each.label for each in at_target.first if each.label != best]
    return f" ({listed(names)} {equal_words(found[0])})"


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
        {"xref": "paper", "x": 0, "xanchor": "left", "xshift": 4, "y": top, "yref": "y", "text": "not reached",
         "showarrow": False, "yanchor": "bottom", "yshift": 5, "font": {"size": 12, "color": "@muted"}}
    ]  # fmt: skip
    whiskers = "; whiskers: 95\u202f% interval over seeds" if ends_s else ""
    crosses = "; crosses at the top: not reached by every seed" if has_missed else ""
    drawn = layout(
        360,
        xaxis=axis(data.name, **ticks, range=[-0.4, len(data.values) - 0.6], showgrid=False),
        yaxis=axis(f"time to {data.target} ({unit})", range=[0, (1.16 if has_missed else 1.04) * top]),
        annotations=words if has_missed else [],
        showlegend=len(data.lines) > 1,
        legend=legend(),
    )
    under = f"Simulated time to {data.target} ({unit}), means{whiskers}{crosses}."
    return Figure(data.title, under, traces, drawn, {"xaxis": {"tickangle": 0}}, note=data.note)


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
