"""Distance of the workers' own weights from their mean, where each worker has its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.learning_curves import chosen
from clustersim.report.palette import series_colour, series_dash, series_marker
from clustersim.report.trainings import TrainedRun, comparisons
from clustersim.report.words import count, percent, plot_text, shortened, time_unit
from clustersim.results import Sweep

MAX_POINTS = 120


@dataclass(frozen=True)
class ConsensusLine:
    """The distances of one run [num_points]; `number` is its number among all trained runs, which sets its colour."""

    label: str
    number: int
    seconds: list[float]
    distance: list[float]


@dataclass(frozen=True)
class Consensus:
    """The figure in numbers; distances are over the length of the mean weights."""

    title: str
    where: str
    lines: tuple[ConsensusLine, ...]
    note: str


def consensus_data(sweep: Sweep) -> Consensus | None:
    """Return the distances under the main conditions; None where all workers have the same weights."""
    found = comparisons(sweep)
    if not found:
        return None
    order = {id(each): number for number, each in enumerate(found[0].trainings)}
    have = [each for each in found[0].trainings if any(distance > 0 for _, distance in each.learning.consensus)]
    if not have:
        return None
    shown, left_out = chosen(have)
    note = f"{len(shown)} of {count(len(have))} runs are drawn." if left_out else ""
    lines = tuple(_line(each, order[id(each)]) for each in shown)
    return Consensus(_title(lines), found[0].where, lines, note)


def _line(training: TrainedRun, number: int) -> ConsensusLine:
    rows = [row for row in training.learning.consensus if row[1] > 0]
    step = max(1, -(-len(rows) // MAX_POINTS))
    kept = [*rows[::step], *([rows[-1]] if (len(rows) - 1) % step else [])]
    return ConsensusLine(training.name, number, [row[0] for row in kept], [row[1] for row in kept])


def _title(lines: Sequence[ConsensusLine]) -> str:
    """Return the mean distance in the second half of each training, the largest first; at most three."""
    ends = sorted(((_late(line), line.label) for line in lines), reverse=True)
    if len(ends) == 1:
        return f"Workers' weights are {percent(ends[0][0])} apart in the second half of the training"
    (most, widest), (least, closest) = ends[0], ends[-1]
    return (
        f"Workers' weights are furthest apart with {widest}, {percent(most)} in the second half of the training; "
        f"{percent(least)} with {closest}"
    )


def _late(line: ConsensusLine) -> float:
    half = line.distance[len(line.distance) // 2 :]
    return sum(half) / len(half)


def draw_consensus(data: Consensus) -> Figure:
    """Draw a line for each run on a logarithmic axis."""
    unit, factor = time_unit(max(line.seconds[-1] for line in data.lines))
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": plot_text(shortened(line.label, 34)),
            "x": [float(f"{seconds / factor:.5g}") for seconds in line.seconds],
            "y": [float(f"{100 * distance:.4g}") for distance in line.distance],
            "line": {"color": series_colour(line.number), "width": 2.2, "dash": series_dash(line.number)},
            "marker": {
                "color": series_colour(line.number),
                "symbol": series_marker(line.number),
                "size": 7,
                "maxdisplayed": 10,
            },
            "hovertemplate": f"<b>{plot_text(line.label)}</b><br>%{{x:.4g}} {unit}: %{{y:.3g}} %<extra></extra>",
        }
        for line in data.lines
    ]
    values = [distance for line in data.lines for distance in line.distance]
    scale: Json = {"rangemode": "tozero"}
    if max(values) > 10 * min(values):
        scale = {"type": "log", "dtick": "D2" if max(values) < 100 * min(values) else 1}
    drawn = layout(
        340,
        xaxis=axis(f"simulated time ({unit})", showgrid=False, rangemode="tozero"),
        yaxis=axis("consensus distance (%)", tickformat="~g", **scale),
        showlegend=len(data.lines) > 1,
        legend=legend(),
    )
    where = f", {data.where}" if data.where else ""
    under = (
        "Root mean square distance of the workers' weights from their mean, over the length of the mean (%), one "
        f"seed{where}."
    )
    return Figure(data.title, under, traces, drawn, {"xaxis": {"nticks": 5}}, note=data.note)
