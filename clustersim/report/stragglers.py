"""Several iterations as lanes, one per GPU: compute, waiting, communication, and the awaited rank of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median

import numpy as np

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.lanes import MIN_WAITING_SHARE, QUIET_WAITING_SHARE
from clustersim.report.lateness import CAUSES, IterationTable, LastRank, find_last_ranks, iteration_table
from clustersim.report.palette import LABELS, PARTS
from clustersim.report.rank_names import host_names, rank_name
from clustersim.report.series import run_label
from clustersim.report.words import count, duration, percent, plot_text, plural, time_unit
from clustersim.results import NO_RANK, Run, Sweep, WorkerIteration

MAX_LANES = 24
"""GPUs whose lanes fit a screen; of more, those that explain the waiting are shown."""

MAX_ITERATIONS = 8
"""Iterations side by side in which single bars are still wide enough to hover over."""


@dataclass(frozen=True)
class Bar:
    """A span of one rank's iteration, in seconds from the start of the figure; `kind` is a part of an iteration."""

    rank: int
    iteration: int
    kind: str
    start_s: float
    end_s: float
    why: str


@dataclass(frozen=True)
class Stragglers:
    """The figure in numbers: bars of the ranks shown, and the last rank of each iteration with its ready time."""

    title: str
    run: str
    ranks: tuple[int, ...]
    names: tuple[str, ...]
    bars: tuple[Bar, ...]
    last_ranks: tuple[tuple[LastRank, float], ...]
    length_s: float
    note: str
    quiet: str


def stragglers_data(sweep: Sweep, run: Run, max_lanes: int = MAX_LANES) -> Stragglers | None:
    """Return the last iterations of a run as bars; None where the waiting is negligible."""
    found = iteration_table(run)
    if found is None or run.num_gpus < 2:
        return None
    last_ranks = find_last_ranks(found, host_names(run))
    if sum(run.cycles.waiting_s) <= MIN_WAITING_SHARE * _busy_s(run):
        return None
    cycles = _window(run, found)
    shown = {cycle.iteration for cycle in cycles}
    recent = [last for last in last_ranks if last.iteration in shown]
    ranks = _lanes(run, cycles, recent, max_lanes)
    origin_s = min(cycle.begin_s for cycle in cycles)
    by_iteration = {last.iteration: last for last in last_ranks}
    bars = [
        bar
        for cycle in cycles
        if cycle.rank in set(ranks)
        for bar in _bars(cycle, origin_s, by_iteration.get(cycle.iteration))
    ]
    ready = {(cycle.rank, cycle.iteration): cycle.computed_s - origin_s for cycle in cycles}
    marked = [(last, ready[key]) for last in recent if (key := (last.rank, last.iteration)) in ready]
    notes = ["" if len(ranks) == run.num_gpus else _note(len(ranks), run.num_gpus), _input_note(run)]
    return Stragglers(
        title=_title(last_ranks, len(found.iteration), run.num_gpus),
        run=run_label(sweep, run),
        ranks=tuple(ranks),
        names=tuple(rank_name(run, rank) for rank in ranks),
        bars=tuple(bars),
        last_ranks=tuple(marked),
        length_s=max(cycle.end_s for cycle in cycles) - origin_s,
        note=" ".join(filter(None, notes)),
        quiet=quiet_waiting(run),
    )


def _input_note(run: Run) -> str:
    has_input = run.breakdown_s.get("input", 0.0) > MIN_WAITING_SHARE * run.iteration_s
    return "Compute begins with the wait for samples." if has_input else ""


def quiet_waiting(run: Run) -> str:
    """Say that ranks hardly wait for one another; empty where they do."""
    share = sum(run.cycles.waiting_s) / _busy_s(run)
    return f"Ranks wait for one another for {percent(share)} of the time." if share < QUIET_WAITING_SHARE else ""


def _busy_s(run: Run) -> float:
    return sum(run.cycles.end_s) - sum(run.cycles.begin_s)


def _window(run: Run, found: IterationTable) -> list[WorkerIteration]:
    """Return the last iterations: a fixed number in lockstep, otherwise those in a time span of the same length."""
    rows = list(run.cycles.rows())
    if found.in_lockstep:
        first = int(found.iteration[-MAX_ITERATIONS:][0])
        return [row for row in rows if row.iteration >= first]
    ends_s = {row.rank: row.end_s for row in rows}
    latest_s = median(ends_s.values())
    mean_s = _busy_s(run) / len(rows)
    return [row for row in rows if row.end_s > latest_s - MAX_ITERATIONS / 2 * mean_s]


def _lanes(run: Run, cycles: list[WorkerIteration], last_ranks: list[LastRank], limit: int) -> list[int]:
    """Return the ranks that are shown, in order: awaited ones, those that wait longest, and others evenly spaced."""
    every = sorted({cycle.rank for cycle in cycles})
    if len(every) <= limit:
        return every
    waited = dict.fromkeys(every, 0.0)
    for cycle in cycles:
        waited[cycle.rank] += cycle.waiting_s
    longest = sorted(every, key=lambda rank: -waited[rank])[: limit // 4]
    spread = [every[round(place * (len(every) - 1) / (limit - 1))] for place in range(limit)]
    wanted = dict.fromkeys([*(last.rank for last in last_ranks), *longest, *spread])
    return sorted(list(wanted)[:limit])


def _bars(cycle: WorkerIteration, origin_s: float, last: LastRank | None) -> list[Bar]:
    """Return the spans of one iteration: compute, waiting, communication, update."""
    waited_s = cycle.computed_s + cycle.waiting_s
    edges = [
        ("compute", cycle.begin_s, cycle.computed_s, ""),
        ("waiting", cycle.computed_s, waited_s, _why(cycle, last)),
        ("exposed", waited_s, cycle.exchanged_s, ""),
        ("update", cycle.exchanged_s, cycle.end_s, ""),
    ]
    return [
        Bar(cycle.rank, cycle.iteration, kind, start_s - origin_s, end_s - origin_s, why)
        for kind, start_s, end_s, why in edges
        if end_s - start_s > 1e-9
    ]


def _why(cycle: WorkerIteration, last: LastRank | None) -> str:
    if cycle.awaited_rank == NO_RANK:
        return ""
    text = f"longest for rank {cycle.awaited_rank}"
    return f"{text}, {_reason(last)}" if last is not None and last.rank == cycle.awaited_rank else text


def _reason(last: LastRank) -> str:
    if last.cause == "network":
        return f"which began {duration(last.late_s['network'])} later than the median"
    return f"which computed {percent(last.compute_excess)} longer than the median: {CAUSES[last.cause]}"


def _title(last_ranks: tuple[LastRank, ...], num_iterations: int, num_ranks: int) -> str:
    """Name the straggler, if one rank is last more often than by chance (three standard deviations)."""
    if not last_ranks:
        return "No single straggler: in each iteration ranks wait for different others"
    often = Counter(last.rank for last in last_ranks)
    rank, number = often.most_common(1)[0]
    waited_s = sum(last.waited_s for last in last_ranks if last.rank == rank)
    share = waited_s / sum(last.waited_s for last in last_ranks)
    by_chance = len(last_ranks) / num_ranks
    if len(often) > 1 and number < max(2, by_chance + 3 * by_chance**0.5):
        iterations = plural(len(last_ranks), "iteration")
        return f"No single straggler: {count(len(often))} different ranks are awaited in {iterations}"
    return (
        f"Rank {rank} causes {percent(share)} of the waiting "
        f"(awaited in {count(number)} of {plural(num_iterations, 'iteration')})"
    )


def _note(num_shown: int, num_ranks: int) -> str:
    return (
        f"{num_shown} of {count(num_ranks)} ranks are shown: awaited ones, those that wait longest, and others evenly "
        "spaced."
    )


def draw_stragglers(data: Stragglers) -> Figure:
    """Draw one lane per GPU with time to the right; a diamond marks when the last rank of an iteration is ready."""
    unit, factor = time_unit(data.length_s)
    place = {rank: number for number, rank in enumerate(data.ranks)}
    kinds = [kind for kind in ("compute", "waiting", "exposed", "update") if any(b.kind == kind for b in data.bars)]
    traces = [_trace(data, kind, place, factor) for kind in kinds]
    traces += [_diamonds(data, place, factor)] if data.last_ranks else []
    number = len(data.ranks)
    lane_px = 34 if number <= 12 else 22
    long = [_lane(rank, name) for rank, name in zip(data.ranks, data.names, strict=True)]
    drawn = layout(
        120 + lane_px * number,
        barmode="overlay",
        xaxis=axis(f"time ({unit})", range=[0, 1.01 * data.length_s / factor]),
        yaxis=axis(tickvals=list(range(number)), ticktext=long, range=[number - 0.4, -0.6], showgrid=False),
        showlegend=True,
        legend=legend(),
    )
    under = (
        f"The last iterations over time ({unit}), one lane per GPU: {data.run}. Diamonds: the awaited rank is ready. "
        "Waiting is drawn before communication."
    )
    narrow = {"yaxis": {"ticktext": [str(rank) for rank in data.ranks]}, "xaxis": {"nticks": 5}}
    return Figure(data.title, under, traces, drawn, narrow, label=data.run, note=data.note, quiet=data.quiet)


def _lane(rank: int, name: str) -> str:
    return f"{rank} · {plot_text(name)}" if name else str(rank)


def _trace(data: Stragglers, kind: str, place: dict[int, int], factor: float) -> Json:
    bars = [bar for bar in data.bars if bar.kind == kind]
    return {
        "type": "bar",
        "orientation": "h",
        "name": LABELS[kind],
        "base": _short([bar.start_s / factor for bar in bars]),
        "x": _short([(bar.end_s - bar.start_s) / factor for bar in bars]),
        "y": [place[bar.rank] for bar in bars],
        "width": 0.72,
        "hovertext": [_hover(bar) for bar in bars],
        "hoverinfo": "text",
        "marker": {"color": PARTS[kind], "line": {"width": 0}},
    }


def _hover(bar: Bar) -> str:
    verb = {"compute": "computed", "waiting": "waited", "exposed": "communicated", "update": "updated"}[bar.kind]
    words = [f"<b>rank {bar.rank}</b>, iteration {bar.iteration}", f"{verb} {duration(bar.end_s - bar.start_s)}"]
    return "<br>".join([*words, plot_text(bar.why)] if bar.why else words)


def _diamonds(data: Stragglers, place: dict[int, int], factor: float) -> Json:
    rows = [(last, ready_s) for last, ready_s in data.last_ranks if last.rank in place]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "awaited rank",
        "x": _short([ready_s / factor for _, ready_s in rows]),
        "y": [place[last.rank] for last, _ in rows],
        "hovertext": [
            f"<b>rank {last.rank}</b> is last in iteration {last.iteration}<br>{_reason(last)}"
            f"<br>the others wait {duration(last.waited_s)} for it in total"
            for last, _ in rows
        ],
        "hoverinfo": "text",
        "marker": {"symbol": "diamond", "size": 11, "color": "@ink", "line": {"color": "@surface", "width": 1.5}},
    }


def _short(values: list[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in np.asarray(values).tolist()]
