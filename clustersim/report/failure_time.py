"""Failures over a long training: shares of useful time, checkpoints, lost work and restarts in each time bin."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import PARTS
from clustersim.report.series import run_label
from clustersim.report.words import count, duration, percent, plot_text
from clustersim.results import Run, Sweep
from clustersim.results.failures import StateSpan

MAX_BINS = 90
STATES = ("useful", "saving", "lost", "restart")
"""States of a training, in the order in which they are stacked."""

_NAMES = {"useful": "useful work", "saving": "checkpoints", "lost": "lost work", "restart": "downtime and restart"}
_COLOURS = {
    "useful": PARTS["compute"],
    "saving": PARTS["update"],
    "lost": PARTS["waiting"],
    "restart": PARTS["recovery"],
}


@dataclass(frozen=True)
class FailureTime:
    """The figure in numbers: `share[state]` [num_bins] in bins of `bin_s`, of the first replicate.

    `length_s` is its length; `failures` are the times of its failures and the failed components.
    """

    title: str
    run: str
    bin_s: float
    length_s: float
    share: dict[str, list[float]]
    failures: tuple[tuple[float, str], ...]
    note: str


def failure_time_data(sweep: Sweep, run: Run, max_bins: int = MAX_BINS) -> FailureTime | None:
    """Return the time shares of a long training, bin by bin; None without failures in the scenario."""
    times = run.failures
    if times is None:
        return None
    rows, states = times.downtimes, times.states()
    length_s = states[-1].end_s
    note = "" if times.has_all_downtimes else f"Drawn up to failure {count(len(rows))}."
    edges = np.linspace(0.0, length_s, max_bins + 1)
    bin_s = length_s / max_bins
    shares = {state: _covered(states, state, edges) / bin_s for state in ("lost", "restart")}
    rest = np.maximum(0.0, 1.0 - shares["lost"] - shares["restart"])
    saving = times.checkpoint_s / (times.checkpoint_s + times.useful_s)
    shares |= {"useful": rest * (1.0 - saving), "saving": rest * saving}
    return FailureTime(
        title=_title(run),
        run=run_label(sweep, run),
        bin_s=bin_s,
        length_s=length_s,
        share={state: shares[state].tolist() for state in STATES},
        failures=tuple((time_s, f"{what} {number}") for time_s, what, number, _, _ in rows),
        note=note,
    )


def _covered(states: list[StateSpan], state: str, edges: np.ndarray) -> np.ndarray:
    """Return how much of each bin is in a state, in seconds [num_bins]."""
    covered = np.zeros(len(edges) - 1)
    for one in states:
        if one.state == state:
            covered += np.clip(np.minimum(one.end_s, edges[1:]) - np.maximum(one.start_s, edges[:-1]), 0.0, None)
    return covered


def _title(run: Run) -> str:
    times = run.failures
    assert times is not None
    if not times.num_failures:
        return f"Nothing fails in {duration(times.total_s)}; checkpoints take " + percent(
            times.checkpoint_s / times.total_s
        )
    parts = {"saving checkpoints": times.checkpoint_s, "lost work": times.lost_s, "restarts": times.restart_s}
    most = max(parts, key=lambda part: parts[part])
    return (
        f"{percent(times.useful_s / times.total_s)} of the training time is useful; the largest other part is {most}, "
        f"{percent(parts[most] / times.total_s)}"
    )


def calendar_unit(length_s: float) -> tuple[str, float]:
    """Return a unit for a long time, and its length in seconds."""
    units = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0))
    return next(((name, factor) for name, factor in units if length_s >= 3 * factor), ("s", 1.0))


def draw_failure_time(data: FailureTime) -> Figure:
    """Draw stacked bars of shares over the training time, with a tick above for each failure."""
    unit, factor = calendar_unit(data.length_s)
    number = len(data.share["useful"])
    middles = [(place + 0.5) * data.bin_s / factor for place in range(number)]
    traces: list[Json] = [
        {
            "type": "bar",
            "name": _NAMES[state],
            "x": [float(f"{middle:.6g}") for middle in middles],
            "y": [round(100 * value, 4) for value in data.share[state]],
            "width": data.bin_s / factor,
            "hovertext": [
                f"<b>{_NAMES[state]}</b><br>{percent(value)} of {duration(data.bin_s)}" for value in data.share[state]
            ],
            "hoverinfo": "text",
            "marker": {"color": _COLOURS[state], "line": {"width": 0}},
        }
        for state in STATES
        if any(data.share[state])
    ]
    traces += [_ticks(data, factor)] if data.failures else []
    drawn = layout(
        340,
        barmode="stack",
        bargap=0,
        xaxis=axis(f"time ({unit})", range=[0, data.length_s / factor], showgrid=False),
        yaxis=axis("share of the time (%)", range=[0, 106], tickvals=[0, 25, 50, 75, 100]),
        showlegend=True,
        legend=legend(),
    )
    under = f"One whole training ({unit}), shares of each {duration(data.bin_s)} (%): {data.run}. Ticks: failures."
    return Figure(data.title, under, traces, drawn, {"xaxis": {"nticks": 5}}, label=data.run, note=data.note)


def _ticks(data: FailureTime, factor: float) -> Json:
    often = Counter(what.partition(" ")[0] for _, what in data.failures)
    by_cause = ", ".join(f"{count(number)} by {'GPU' if what == 'gpu' else what}" for what, number in often.items())
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plot_text(f"failures: {by_cause}"),
        "x": [float(f"{time_s / factor:.7g}") for time_s, _ in data.failures],
        "y": [103.0] * len(data.failures),
        "hovertext": [f"<b>{plot_text(what)}</b> fails after {duration(time_s)}" for time_s, what in data.failures],
        "hoverinfo": "text",
        "marker": {"symbol": "line-ns-open", "size": 8, "color": "@ink", "line": {"width": 1.2}},
    }
