"""Pollux's formula: the samples that it says a training needs, beside those that it really needed."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from clustersim.report.figure import Figure, FigureTable, Json, axis, layout, legend, log_ticks, names_over
from clustersim.report.trainings import comparisons
from clustersim.report.words import count, plot_text, shortened, times
from clustersim.results import Sweep
from clustersim.results.pollux import pollux

_EQUAL = 1.1
"""Factor below which the formula is told to be right."""


@dataclass(frozen=True)
class PolluxLine:
    """One run: the samples of its updates, and its samples to the target over those of the reference."""

    label: str
    batch: float
    predicted: float
    measured: float


@dataclass(frozen=True)
class PolluxPanel:
    """The figure in numbers; `reference` names the run that all others are relative to."""

    title: str
    where: str
    reference: str
    batch: float
    noise_scale: float
    lines: tuple[PolluxLine, ...]


def pollux_data(sweep: Sweep) -> PolluxPanel | None:
    """Return the first comparison in which at least two runs reach the target; None if there is none."""
    for comparison in comparisons(sweep):
        found = None if comparison.target is None else pollux([each.learning for each in comparison.trainings])
        if found is not None:
            names = [each.name for each in comparison.trainings]
            lines = tuple(PolluxLine(names[row.place], row.batch, row.predicted, row.measured) for row in found.rows)
            base = comparison.trainings[found.reference].learning
            return PolluxPanel(
                _title(lines),
                comparison.where,
                names[found.reference],
                base.samples_per_update,
                found.noise_scale,
                tuple(sorted(lines, key=lambda line: -line.measured)),
            )
    return None


def _title(lines: tuple[PolluxLine, ...]) -> str:
    """Say how far the formula is off."""
    factors = [max(line.predicted / line.measured, line.measured / line.predicted) for line in lines]
    worst = max(range(len(lines)), key=factors.__getitem__)
    if factors[worst] <= _EQUAL:
        return f"Pollux's formula gives the samples to the target within {times(factors[worst])}"
    way = "too many" if lines[worst].predicted > lines[worst].measured else "too few"
    middle = f"in the median by {times(median(factors))}, " if len(lines) > 1 else ""
    return f"Pollux's formula is off {middle}at most by {times(factors[worst])}: {way} samples for {lines[worst].label}"


def draw_pollux(data: PolluxPanel) -> Figure:
    """Draw one row for each run: a ring for the formula, a dot for what was needed, and a line between them."""
    names = [line.label for line in data.lines]
    places = list(range(len(names)))
    stems: dict[str, list[float | None]] = {"x": [], "y": []}
    for place, line in enumerate(data.lines):
        stems["x"] += [line.predicted, line.measured, None]
        stems["y"] += [place, place, None]
    mark: Json = {"type": "scatter", "mode": "markers", "y": places, "hoverinfo": "text", "cliponaxis": False}
    hover = [_hover(line) for line in data.lines]
    traces: list[Json] = [
        {"type": "scatter", "mode": "lines", **stems, "line": {"color": "@muted", "width": 2}, "hoverinfo": "skip",
         "showlegend": False},
        {**mark, "name": "Pollux's formula", "x": [line.predicted for line in data.lines], "hovertext": hover,
         "marker": {"size": 12, "symbol": "diamond-open", "color": "@series1", "line": {"width": 2}}},
        {**mark, "name": "as trained", "x": [line.measured for line in data.lines], "hovertext": hover,
         "marker": {"size": 12, "color": "@series0"}},
    ]  # fmt: skip
    ticks = log_ticks([1.0, *(value for line in data.lines for value in (line.predicted, line.measured))])
    where = f"{data.where}. " if data.where else ""
    one: Json = {"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1}
    rows = axis(
        tickvals=places, ticktext=[plot_text(shortened(name, 34)) for name in names],
        range=[len(names) - 0.4, -0.6], showgrid=False, fixedrange=True,
    )  # fmt: skip
    drawn = layout(
        130 + 34 * len(names),
        xaxis=axis("samples to the target, relative to the reference", type="log", **ticks),
        yaxis=rows,
        shapes=[{**one, "line": {"color": "@muted", "dash": "dash", "width": 1.2}, "layer": "below"}],
        showlegend=True,
        legend=legend(),
    )
    subtitle = (
        f"{where}Samples to the target over those of {data.reference} (batch {count(data.batch)}, gradient noise scale "
        f"{count(round(data.noise_scale))} samples until the target). The formula is (noise scale + batch) / (noise "
        "scale + batch of the reference). It is for fresh gradients and knows no staleness."
    )
    narrow = {**names_over(names), "height": 150 + 48 * len(names)}
    return Figure(data.title, subtitle, traces, drawn, narrow, table=_table(data))


def _hover(line: PolluxLine) -> str:
    return (
        f"<b>{plot_text(line.label)}</b>, batch {count(line.batch)}<br>formula {times(line.predicted)}, "
        f"as trained {times(line.measured)}"
    )


def _table(data: PolluxPanel) -> FigureTable:
    headings = ("run", "batch (samples)", "Pollux's formula", "as trained")
    reference = (data.reference, data.batch, 1.0, 1.0)
    rows = [(line.label, line.batch, line.predicted, line.measured) for line in data.lines]
    return FigureTable(headings, [reference, *rows])
