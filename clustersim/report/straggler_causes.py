"""Straggler causes: excess compute time of each rank in each iteration, and why the awaited rank was late."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.lanes import MIN_WAITING_SHARE
from clustersim.report.lateness import CAUSES, LastRank, compute_excess, find_last_ranks, iteration_table
from clustersim.report.palette import load_scale, series_colour
from clustersim.report.rank_names import host_names, rank_name
from clustersim.report.series import run_label
from clustersim.report.stragglers import quiet_waiting
from clustersim.report.words import count, duration, percent, plot_text, plural, time_unit
from clustersim.results import Run, Sweep

MAX_ROWS = 64
MAX_COLUMNS = 120


@dataclass(frozen=True)
class StragglerCauses:
    """The figure in numbers.

    `compute_excess` [num_rows][num_iterations] is a rank's compute time over the median, minus 1: the maximum of
    `ranks_per_row` neighbours, None where it is unknown. `late_s[cause]` [len(last_ranks)] is the delay in seconds of
    the last rank of each iteration against the median.
    """

    title: str
    run: str
    iterations: list[int]
    labels: list[str]
    compute_excess: list[list[float | None]]
    ranks_per_row: int
    last_ranks: tuple[LastRank, ...]
    late_s: dict[str, list[float]]
    quiet: str


def straggler_causes_data(
    sweep: Sweep, run: Run, max_rows: int = MAX_ROWS, max_columns: int = MAX_COLUMNS
) -> StragglerCauses | None:
    """Return the heat map and the causes; None where most iterations have no last rank, or there is one iteration."""
    found = iteration_table(run)
    if found is None or run.num_gpus < 2 or len(found.iteration) < 2:
        return None
    busy_s = sum(run.cycles.end_s) - sum(run.cycles.begin_s)
    last_ranks = find_last_ranks(found, host_names(run))
    if len(last_ranks) < 0.5 * len(found.iteration) or sum(run.cycles.waiting_s) <= MIN_WAITING_SHARE * busy_s:
        return None
    iterations = found.iteration[-max_columns:].tolist()
    shown = tuple(last for last in last_ranks if last.iteration >= iterations[0])
    per_row = -(-run.num_gpus // max_rows)
    late_s = {cause: [last.late_s[cause] for last in shown] for cause in CAUSES}
    return StragglerCauses(
        title=_title(last_ranks),
        run=run_label(sweep, run),
        iterations=iterations,
        labels=[_label(run, start, per_row) for start in range(0, run.num_gpus, per_row)],
        compute_excess=_most(compute_excess(found)[:, -max_columns:], per_row),
        ranks_per_row=per_row,
        last_ranks=shown,
        late_s={cause: seconds for cause, seconds in late_s.items() if any(abs(one) > 1e-9 for one in seconds)},
        quiet=quiet_waiting(run),
    )


def _most(share: np.ndarray, per_row: int) -> list[list[float | None]]:
    """Return the maximum of each group of neighbours."""
    filled = np.where(np.isnan(share), -np.inf, share)
    rows = [filled[start : start + per_row].max(axis=0) for start in range(0, len(filled), per_row)]
    return [[round(value, 5) if np.isfinite(value) else None for value in row.tolist()] for row in rows]


def _label(run: Run, start: int, per_row: int) -> str:
    stop = min(start + per_row, run.num_gpus) - 1
    if stop > start:
        return f"ranks {start} to {stop}"
    name = rank_name(run, start)
    return f"rank {start} ({name})" if name else f"rank {start}"


def cause_shares(last_ranks: tuple[LastRank, ...]) -> dict[str, float]:
    """Return the share of each cause in all delays, weighted by the waiting time of the others; the sum is 1.

    A cause that made the last rank of an iteration faster is not counted there.
    """
    total = dict.fromkeys(CAUSES, 0.0)
    for last in last_ranks:
        slowing = {cause: max(0.0, seconds) for cause, seconds in last.late_s.items()}
        whole = sum(slowing.values())
        for cause, seconds in slowing.items() if whole > 0 else ():
            total[cause] += last.waited_s * seconds / whole
    whole = sum(total.values())
    return {cause: seconds / whole for cause, seconds in total.items()} if whole > 0 else total


def _title(last_ranks: tuple[LastRank, ...]) -> str:
    often = Counter(last.rank for last in last_ranks)
    rank, number = often.most_common(1)[0]
    shares = cause_shares(last_ranks)
    cause = max(shares, key=lambda name: shares[name])
    reason = {
        "device": "GPUs that are always slow",
        "host": "whole hosts that are slow",
        "jitter": "random jitter",
        "network": "late starts",
    }[cause]
    which = f"Rank {rank} is last in {count(number)} of {plural(len(last_ranks), 'iteration')}"
    if number == 1 and len(last_ranks) > 1:
        which = f"A different rank is last in each of {plural(len(last_ranks), 'iteration')}"
    return f"{which}; {percent(shares[cause])} of the waiting is due to {reason}"


def draw_straggler_causes(data: StragglerCauses) -> Figure:
    """Draw the heat map with a mark on the last rank, and below it the causes of its delay, iteration by iteration."""
    rows = len(data.labels)
    plot_px = min(max(14 * rows, 150), 420)
    height = plot_px + 250
    split = 130 / (height - 60)
    longest_s = max((sum(abs(s[n]) for s in data.late_s.values()) for n in range(len(data.last_ranks))), default=0.0)
    unit, factor = time_unit(longest_s)
    step = -(-rows // 24)
    ticks: Json = {
        "tickvals": list(range(0, rows, step)),
        "ticktext": [plot_text(data.labels[row]) for row in range(0, rows, step)],
    }
    short = [label.removeprefix("ranks ").removeprefix("rank ").split(" (")[0] for label in data.labels]
    edges = [data.iterations[0] - 0.5, data.iterations[-1] + 0.5]
    drawn = layout(
        height,
        barmode="relative",
        bargap=0.15,
        xaxis=axis(range=edges, showticklabels=False, showgrid=False, anchor="y"),
        yaxis=axis(**ticks, range=[rows - 0.5, -0.5], showgrid=False, domain=[split + 0.06, 1.0]),
        xaxis2=axis(
            "iteration",
            range=edges,
            matches="x",
            anchor="y2",
            showgrid=False,
            tickformat="d",
            **({"dtick": 1} if len(data.iterations) <= 20 else {}),
        ),
        yaxis2=axis(f"delay ({unit})", domain=[0.0, split], anchor="x2"),
        showlegend=True,
        legend=legend(),
    )
    averaged = f", the slowest of {count(data.ranks_per_row)} neighbours per row" if data.ranks_per_row > 1 else ""
    under = (
        f"Compute time of each rank above the median (%){averaged}: {data.run}. Diamonds: the awaited rank. "
        f"Below: causes of its delay against the median ({unit})."
    )
    traces = [_heat(data), _marks(data), *(_causes(data, number, factor) for number in range(len(CAUSES)))]
    narrow = {"yaxis": {"ticktext": short[::step]}, "xaxis2": {"nticks": 5}}
    return Figure(
        data.title, under, [trace for trace in traces if trace], drawn, narrow, label=data.run, quiet=data.quiet
    )


def _heat(data: StragglerCauses) -> Json:
    most = max((value for row in data.compute_excess for value in row if value is not None), default=0.0)
    bar = {"title": {"text": "above median (%)", "font": {"size": 12}}, "thickness": 9, "outlinewidth": 0, "len": 0.5,
           "y": 1.0, "yanchor": "top", "tickfont": {"size": 11}}  # fmt: skip
    return {
        "type": "heatmap",
        "x": data.iterations,
        "y": list(range(len(data.labels))),
        "z": [[None if value is None else round(100 * value, 3) for value in row] for row in data.compute_excess],
        "zmin": 0,
        "zmax": max(1.0, 100 * most),
        "colorscale": [[0.0, "@surface"], *([0.06 + 0.94 * float(at), colour] for at, colour in load_scale())],
        "colorbar": bar,
        "customdata": [[plot_text(label) for _ in data.iterations] for label in data.labels],
        "hovertemplate": "<b>%{customdata}</b>, iteration %{x}<br>computed %{z:.1f} % longer than the median"
        "<extra></extra>",
        "showlegend": False,
    }


def _marks(data: StragglerCauses) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "awaited rank",
        "x": [last.iteration for last in data.last_ranks],
        "y": [last.rank // data.ranks_per_row for last in data.last_ranks],
        "hovertext": [
            f"<b>rank {last.rank}</b> is last in iteration {last.iteration}<br>the others wait "
            f"{duration(last.waited_s)} for it in total<br>main cause: {CAUSES[last.cause]}"
            for last in data.last_ranks
        ],
        "hoverinfo": "text",
        "marker": {
            "symbol": "diamond",
            "size": 9 if len(data.iterations) <= 40 else 6,
            "color": "@ink",
            "line": {"color": "@surface", "width": 1},
        },
    }


def _causes(data: StragglerCauses, number: int, factor: float) -> Json:
    cause = list(CAUSES)[number]
    if cause not in data.late_s:
        return {}
    seconds = data.late_s[cause]
    return {
        "type": "bar",
        "name": CAUSES[cause],
        "x": [last.iteration for last in data.last_ranks],
        "y": [float(f"{one / factor:.5g}") for one in seconds],
        "xaxis": "x2",
        "yaxis": "y2",
        "hovertext": [
            f"<b>iteration {last.iteration}</b>, rank {last.rank}<br>{CAUSES[cause]}: {duration(abs(one))} "
            f"{'earlier' if one < 0 else 'later'}"
            for last, one in zip(data.last_ranks, seconds, strict=True)
        ],
        "hoverinfo": "text",
        "marker": {"color": series_colour(number + 1), "line": {"width": 0}},
    }
