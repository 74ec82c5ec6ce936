"""Simulated against measured: the error of every figure, and whether each group meets its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from clustersim.validation.text import aligned, number_text, percent_text
from validate.lab.case import Case
from validate.lab.forecast import Forecast, forecast

LEAST_LINE_S = 0.060
"""Shorter messages are shown and not judged: the token bucket of a link has an effect of a millisecond on them."""


@dataclass(frozen=True)
class Gate:
    """Limits of a group: its mean error, the largest error of a figure, and the distance of staleness distributions."""

    mean: float
    worst: float | None = None
    distance: float | None = None


GATES: Mapping[str, Gate] = {
    "collectives": Gate(0.02, worst=0.05),
    "training": Gate(0.02),
    "servers": Gate(0.02, distance=0.05),
    "asynchronous server": Gate(0.04, distance=0.05),
    "link sharing": Gate(0.01),
    "learning": Gate(0.10),
}
"""Other groups are shown and not judged: one queue for all flows shares a link only roughly as the model does."""


@dataclass(frozen=True)
class Compared:
    """One figure, simulated and measured; or, for `staleness`, the distance of two distributions."""

    group: str
    name: str
    metric: str
    simulated: float | None
    measured: float | None
    spread: float | None
    error: float
    judged: bool


def compare(cases: Sequence[Case]) -> list[Compared]:
    """Simulate every case and return all figures."""
    return [row for case in cases for row in _rows(case, forecast(case))]


def _rows(case: Case, simulation: Forecast) -> Iterator[Compared]:
    judged = case.line_s >= LEAST_LINE_S or case.group != "collectives"
    for metric, figure in case.figures.items():
        simulated = simulation.figures[metric]
        spread = (figure.most - figure.least) / figure.median
        error = simulated / figure.median - 1.0
        yield Compared(case.group, case.name, metric, simulated, figure.median, spread, error, judged)
    if len(case.staleness) > 1:
        distance = kolmogorov_smirnov(simulation.staleness, case.staleness)
        yield Compared(case.group, case.name, "staleness", None, None, None, distance, judged)


def kolmogorov_smirnov(one: Mapping[int, int], other: Mapping[int, int]) -> float:
    """Return the largest difference of two cumulative distributions, each given by the counts of values.

    >>> kolmogorov_smirnov({0: 1, 1: 1}, {0: 3, 1: 1})
    0.25
    """
    totals = sum(one.values()), sum(other.values())
    values = sorted({*one, *other})
    sums = [0, 0]
    largest = 0.0
    for value in values:
        sums = [sums[0] + one.get(value, 0), sums[1] + other.get(value, 0)]
        largest = max(largest, abs(sums[0] / totals[0] - sums[1] / totals[1]))
    return largest


@dataclass(frozen=True)
class Judged:
    """A group: its mean and largest error, the largest distance, and the limits that it does not meet."""

    group: str
    num_figures: int
    mean: float
    worst: float
    distance: float | None
    missed: tuple[str, ...]


def judge(rows: Sequence[Compared]) -> list[Judged]:
    """Return the errors of every group over its judged figures, and the limits that they do not meet."""
    return [
        _judge(group, [row for row in rows if row.group == group]) for group in dict.fromkeys(row.group for row in rows)
    ]


def _judge(group: str, rows: Sequence[Compared]) -> Judged:
    errors = [abs(row.error) for row in rows if row.metric != "staleness" and row.judged]
    distances = [row.error for row in rows if row.metric == "staleness"]
    found, worst = (mean(errors), max(errors)) if errors else (0.0, 0.0)
    distance = max(distances) if distances else None
    gate = GATES.get(group)
    missed = []
    if gate is not None and found > gate.mean:
        missed.append(f"the mean error is {found:.2%} (allowed: at most {gate.mean:.0%})")
    if gate is not None and gate.worst is not None and worst > gate.worst:
        missed.append(f"the largest error is {worst:.2%} (allowed: at most {gate.worst:.0%})")
    if gate is not None and gate.distance is not None and distance is not None and distance > gate.distance:
        missed.append(f"distributions of staleness differ by {distance:.3f} (allowed: at most {gate.distance})")
    return Judged(group, len(errors), found, worst, distance, tuple(missed))


def report(rows: Sequence[Compared]) -> str:
    """Return the tables: every figure by group, then the groups."""
    parts = []
    for group in dict.fromkeys(row.group for row in rows):
        lines = [_cells(row) for row in rows if row.group == group]
        headings = ("case", "metric", "real", "spread", "simulated", "error", "")
        parts.append("\n".join([group, *aligned([headings, *lines], ("case", "metric", ""), indent="  ")]))
    headings = ("group", "figures", "mean error", "largest", "staleness", "limit", "")
    groups = [_group_cells(each) for each in judge(rows)]
    parts.append("\n".join(aligned([headings, *groups], ("group", ""))))
    return "\n\n".join(parts)


def _cells(row: Compared) -> tuple[str, ...]:
    if row.simulated is None or row.measured is None or row.spread is None:
        return row.name, "staleness", "", "", "", f"{row.error:.3f}", "distance of the distributions"
    unit, size = (" MB/s", 1e-6) if row.metric.startswith("flow") else (" ms", 1e3)
    shown = (f"{number_text(value * size)}{unit}" for value in (row.measured, row.simulated))
    real, simulated = shown
    note = "" if row.judged else "short, not judged"
    return row.name, row.metric, real, f"{row.spread:.1%}", simulated, f"{row.error:+.2%}", note


def _group_cells(each: Judged) -> tuple[str, ...]:
    gate = GATES.get(each.group)
    limit = "-" if gate is None else percent_text(gate.mean, signed=False)
    distance = "" if each.distance is None else f"{each.distance:.3f}"
    verdict = "; ".join(each.missed) or ("" if gate is None else "met")
    return each.group, str(each.num_figures), f"{each.mean:.2%}", f"{each.worst:.2%}", distance, limit, verdict
