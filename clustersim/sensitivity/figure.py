"""The figure of sensitivities: a bar for each resource, as long as its gain, divided by what becomes shorter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.report.figure import Figure, FigureTable, Json, axis, layout, legend, names_over
from clustersim.report.palette import LABELS, PARTS
from clustersim.report.words import duration, percent, plot_text, shortened
from clustersim.results import BREAKDOWN
from clustersim.sensitivity.result import Gain, Why

_LEAST = 0.02
"""Share of the longest bar below which a part is left out of the legend."""


@dataclass(frozen=True)
class Gains:
    """The figure in numbers: `parts[part]` [num_rows] is the gain in percent from that part of the breakdown."""

    title: str
    by: float
    rows: tuple[Gain, ...]
    parts: dict[str, list[float]]


def gains_data(found: Why) -> Gains:
    """Return the gain of each resource that may matter and of all together, by part of the breakdown."""
    rows = (*(each for each in found.gains if not each.idle), found.together)
    parts = {part: [_share(each, part) for each in rows] for part in BREAKDOWN}
    shown = {part: values for part, values in parts.items() if any(values)}
    best = max(rows[:-1], key=lambda each: each.gain)
    title = f"The {best.title} gives most: {percent(best.gain)} if it is {percent(found.by)} faster"
    return Gains(title, found.by, rows, shown)


def _share(each: Gain, part: str) -> float:
    """Return the gain in percent that comes from a part, in proportion to the seconds that it saves."""
    total = sum(each.saved_s.values())
    return 100 * each.gain * each.saved_s.get(part, 0.0) / total if total else 0.0


def draw_gains(data: Gains) -> Figure:
    """Draw a row for each resource, and a line at the change itself."""
    places = list(range(len(data.rows)))
    names = [each.title for each in data.rows]
    longest, least = max(100 * data.by, *_ends(data)), -max(_ends(data, sign=-1))
    drawn = layout(
        110 + 32 * len(places),
        barmode="relative",
        bargap=0.3,
        xaxis=axis("gain of samples per second (%)", range=[1.15 * least, 1.12 * longest]),
        yaxis=axis(
            tickvals=places,
            ticktext=[plot_text(shortened(name, 44)) for name in names],
            range=[len(places) - 0.4, -0.6],
            showgrid=False,
            fixedrange=True,
        ),
        shapes=[_line(100 * data.by)],
        showlegend=True,
        legend=legend(),
    )
    narrow = {
        **names_over(names),
        "xaxis": {"range": [1.15 * least, 1.25 * longest], "nticks": 5},
        "bargap": 0.55,
        "height": 140 + 48 * len(places),
    }
    under = (
        f"Gain if one resource alone is {percent(data.by)} faster (the line), by the part of an iteration that becomes "
        "shorter."
    )
    traces = [*(_trace(data, part, longest) for part in data.parts), _labels(data)]
    return Figure(data.title, under, traces, drawn, narrow, table=_table(data))


def _ends(data: Gains, sign: int = 1) -> list[float]:
    """Return the length of each row's parts above zero, or with a `sign` of -1 of those below [num_rows]."""
    columns = data.parts.values()
    return [sum(max(0.0, sign * values[place]) for values in columns) for place in range(len(data.rows))]


def _line(at: float) -> Json:
    line = {"color": "@muted", "width": 1, "dash": "dot"}
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _trace(data: Gains, part: str, longest: float) -> Json:
    hover = [
        f"<b>{plot_text(each.title)}</b><br>{LABELS[part]}: {duration(each.saved_s.get(part, 0.0))} less"
        f"<br>of an iteration of {duration(each.iteration_s)}"
        for each in data.rows
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "name": LABELS[part],
        "x": data.parts[part],
        "y": list(range(len(data.rows))),
        "showlegend": max(map(abs, data.parts[part])) > _LEAST * longest,
        "hovertext": hover,
        "hoverinfo": "text",
        "marker": {"color": PARTS[part], "line": {"color": "@surface", "width": 1}},
    }


def _labels(data: Gains) -> Json:
    return {
        "type": "scatter",
        "mode": "text",
        "x": _ends(data),
        "y": list(range(len(data.rows))),
        "text": [f"  {percent(each.gain, signed=True)}" for each in data.rows],
        "textposition": "middle right",
        "cliponaxis": False,
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _table(data: Gains) -> FigureTable:
    headings = ("resource", "gain (%)", "elasticity", *(f"{LABELS[part]}, less (s)" for part in data.parts))
    rows: list[Sequence[str | float | None]] = [
        (each.title, 100 * each.gain, each.elasticity, *(each.saved_s.get(part, 0.0) for part in data.parts))
        for each in data.rows
    ]
    return FigureTable(headings, rows)
