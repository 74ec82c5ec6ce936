"""The waterfall: from the time of the first run to that of the second, one step for each part or cause."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.difference.details import OTHER_COMPUTE
from clustersim.difference.difference import Difference, PointDifference
from clustersim.difference.sentences import point_label, title
from clustersim.difference.tables import change_text, visible_causes
from clustersim.report.figure import Figure, FigureTable, Json, axis, layout, names_over
from clustersim.report.palette import LABELS, PARTS
from clustersim.report.words import count, duration, percent, plot_text, shortened, time_unit

MOST_STEPS = 24
"""Steps that are drawn; the smallest of more are one."""

_SHOWN = 4
"""Causes of a part that have a step of their own."""

_SMALL = 0.01
"""Share of the largest change up to which changes are one step together."""

_CUT = 0.5
"""Share of the longest bar that all steps must cover, or else the axis does not begin at zero."""

_LONGEST = 40


@dataclass(frozen=True)
class WaterfallStep:
    """One bar: from `start_s` to `end_s`. `part` gives its colour; a total begins at zero and has none."""

    name: str
    part: str
    start_s: float
    end_s: float

    @property
    def change_s(self) -> float:
        """Seconds that the step adds."""
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Waterfall:
    """The figure in numbers: both totals, and between them steps that sum to the difference."""

    title: str
    label: str
    noun: str
    steps: tuple[WaterfallStep, ...]


def waterfall_data(found: Difference, point: PointDifference, in_detail: bool) -> Waterfall:
    """Return the steps by part, or in detail by the causes of each part."""
    changes = [(name, part, seconds) for name, part, seconds in _changes(point, in_detail)]
    largest_s = max((abs(seconds) for _, _, seconds in changes), default=0.0)
    ordered = sorted(changes, key=lambda each: -abs(each[2]))
    kept = [each for each in ordered[:MOST_STEPS] if abs(each[2]) > _SMALL * largest_s]
    rest = [each for each in changes if each not in kept and each[2]]
    steps, at_s = [WaterfallStep("A", "", 0.0, point.seconds[0])], point.seconds[0]
    for name, part, seconds in [each for each in changes if each in kept]:
        steps.append(WaterfallStep(name, part, at_s, at_s + seconds))
        at_s += seconds
    if sum(abs(seconds) for _, _, seconds in rest) > 1e-9 * point.seconds[0]:
        steps.append(WaterfallStep("smaller changes", "rest", at_s, point.seconds[1]))
    steps.append(WaterfallStep("B", "", 0.0, point.seconds[1]))
    where = f"{point_label(point)}, " if len(found.differences) > 1 else ""
    label = f"{where}{'in detail' if in_detail else 'by part'}"
    return Waterfall(title(point), label, point.basis.noun.rstrip(","), tuple(steps))


def _changes(point: PointDifference, in_detail: bool) -> list[tuple[str, str, float]]:
    """Return name, part and seconds of each change, part by part; they sum to the difference."""
    found: list[tuple[str, str, float]] = []
    largest_s = max(abs(part.change_s) for part in point.parts)
    for part in point.parts:
        shown, others = visible_causes(part, largest_s, _SHOWN) if in_detail else ([], [])
        for cause in shown:
            times = f" ({count(cause.number)}×)" if cause.number > 1 else ""
            label = "" if cause.name == OTHER_COMPUTE else f"{LABELS[part.part]}: "
            found.append((f"{label}{shortened(cause.name, _LONGEST)}{times}", part.part, cause.change_s))
        name = f"{LABELS[part.part]}: the rest" if shown else LABELS[part.part]
        left_s = sum(cause.change_s for cause in others) if shown else part.change_s
        if left_s:
            found.append((name, part.part, left_s))
    return found


def draw_waterfall(data: Waterfall) -> Figure:
    """Draw one bar for each step, downward, and the totals above and below."""
    unit, factor = time_unit(max(step.end_s for step in data.steps))
    places = list(range(len(data.steps)))
    low_s = _begin(data)
    high_s = max(max(step.start_s, step.end_s) for step in data.steps)
    names = [step.name for step in data.steps]
    cut = f" The axis begins at {duration(low_s)}." if low_s else ""
    reach = high_s - low_s
    drawn = layout(
        90 + 38 * len(places),
        bargap=0.3,
        xaxis=axis(f"time of {data.noun} ({unit})", range=[low_s / factor, (high_s + 0.16 * reach) / factor]),
        yaxis=axis(
            range=[len(places) - 0.4, -0.6],
            tickvals=places,
            ticktext=[plot_text(name) for name in names],
            showgrid=False,
            fixedrange=True,
        ),
        shapes=_connectors(data, factor),
    )
    narrow = {
        **names_over(names),
        "xaxis": {"range": [low_s / factor, (high_s + 0.3 * reach) / factor], "nticks": 5},
        "bargap": 0.55,
        "height": 110 + 48 * len(places),
    }
    under = (
        f"From A to B, time of {data.noun} ({unit}): each step adds or takes off what its part or cause changes, "
        f"hatched where it takes off.{cut}"
    )
    traces = [_bars(data, factor, low_s), _texts(data, factor)]
    return Figure(data.title, under, traces, drawn, narrow, label=data.label, table=_table(data))


def _begin(data: Waterfall) -> float:
    """Return where the axis begins: at zero, or shortly before the first step where all steps are short."""
    ends = [end for step in data.steps for end in (step.start_s, step.end_s) if end > 0]
    low_s, high_s = min(ends), max(ends)
    return 0.0 if high_s - low_s >= _CUT * high_s or high_s == low_s else max(0.0, low_s - 0.6 * (high_s - low_s))


def _bars(data: Waterfall, factor: float, low_s: float) -> Json:
    bases = [max(min(step.start_s, step.end_s), low_s) for step in data.steps]
    ends = [max(step.start_s, step.end_s) for step in data.steps]
    whole_s = data.steps[0].end_s
    return {
        "type": "bar",
        "orientation": "h",
        "base": [start_s / factor for start_s in bases],
        "x": [(end_s - start_s) / factor for start_s, end_s in zip(bases, ends, strict=True)],
        "y": list(range(len(data.steps))),
        "hovertext": [_hover(step, whole_s) for step in data.steps],
        "hoverinfo": "text",
        "marker": {
            "color": [PARTS.get(step.part, "@muted") for step in data.steps],
            "line": {"color": "@surface", "width": 1},
            "pattern": {
                "shape": ["/" if step.part and step.change_s < 0 else "" for step in data.steps],
                "fillmode": "overlay",
                "bgcolor": "@surface",  # a bar's own colour replaces it; without it plotly complains about a list
                "fgcolor": "#ffffff",
                "fgopacity": 0.45,
                "size": 7,
            },
        },
    }


def _hover(step: WaterfallStep, whole_s: float) -> str:
    name = f"<b>{plot_text(step.name)}</b>"
    if not step.part:
        return f"{name}<br>{duration(step.end_s)}"
    share = percent(step.change_s / whole_s, signed=True)
    return f"{name}<br>{change_text(step.change_s, whole_s)}, {share} of A<br>then {duration(step.end_s)}"


def _texts(data: Waterfall, factor: float) -> Json:
    whole_s = data.steps[0].end_s
    return {
        "type": "scatter",
        "mode": "text",
        "x": [max(step.start_s, step.end_s) / factor for step in data.steps],
        "y": list(range(len(data.steps))),
        "text": [
            f"  {change_text(step.change_s, whole_s)}" if step.part else f"  <b>{duration(step.end_s)}</b>"
            for step in data.steps
        ],
        "textposition": "middle right",
        "textfont": {"size": 12},
        "cliponaxis": False,
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _connectors(data: Waterfall, factor: float) -> list[Json]:
    """Return a thin line from the end of each bar to the next bar."""
    return [
        {
            "type": "line", "layer": "below", "x0": step.end_s / factor, "x1": step.end_s / factor,
            "y0": place, "y1": place + 1, "line": {"color": "@muted", "width": 1, "dash": "dot"},
        }
        for place, step in enumerate(data.steps[:-1])
    ]  # fmt: skip


def _table(data: Waterfall) -> FigureTable:
    """Return a row for each step, and the time after it."""
    headings = ["step", "change (s)", "time after it (s)"]
    return FigureTable(headings, [[step.name, step.change_s if step.part else None, step.end_s] for step in data.steps])
