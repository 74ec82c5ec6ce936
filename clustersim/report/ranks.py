"""Mean iteration of every rank, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, axis, layout, legend
from clustersim.report.lanes import is_laid_out
from clustersim.report.palette import LABELS, PARTS
from clustersim.report.rank_names import place_name, rank_name
from clustersim.report.series import run_label
from clustersim.report.words import count, duration, percent, plot_text, time_unit
from clustersim.results import BREAKDOWN, Run, Sweep

MAX_BARS = 512
"""Ranks drawn one by one; of more, neighbours are averaged."""


_VISIBLE = 0.002
"""Share of an iteration below which a part is too short to be seen, so that it has no place in the legend."""

_SAME, _ALIKE = 0.01, 0.05
"""Differences between ranks, as shares of an iteration, below which there is no figure, or one that says little."""


@dataclass(frozen=True)
class RankBars:
    """The figure in numbers: `parts_s[part]` is [num_bars] mean seconds of an iteration."""

    title: str
    run: str
    labels: list[str]
    parts_s: dict[str, list[float]]
    ranks_per_bar: int
    quiet: str


def ranks_data(sweep: Sweep, run: Run, max_bars: int = MAX_BARS) -> RankBars | None:
    """Return each rank's breakdown; None where the ranks differ by less than 1 % of an iteration."""
    rows = run.worker_breakdown_s
    if len(rows) < 2 or _spread(run) <= _SAME:
        return None
    per_bar = -(-len(rows) // max_bars)
    groups = [range(start, min(start + per_bar, len(rows))) for start in range(0, len(rows), per_bar)]
    parts = {
        part: [sum(rows[rank].get(part, 0.0) for rank in group) / len(group) for group in groups] for part in BREAKDOWN
    }
    return RankBars(
        title=_title(run),
        run=run_label(sweep, run),
        labels=[_label(run, group) for group in groups],
        parts_s={part: seconds for part, seconds in parts.items() if any(seconds)},
        ranks_per_bar=per_bar,
        quiet=""
        if (most := _spread(run)) >= _ALIKE
        else f"Ranks differ by no more than {percent(most)} of an iteration.",
    )


def _spread(run: Run) -> float:
    """Return the largest difference between two ranks in a part of the iteration, as a share of the iteration."""
    values = [[row.get(part, 0.0) for row in run.worker_breakdown_s] for part in BREAKDOWN]
    return max(max(part) - min(part) for part in values) / run.iteration_s


def _title(run: Run) -> str:
    compute = [row.get("compute", 0.0) for row in run.worker_breakdown_s]
    waiting = [row.get("waiting", 0.0) for row in run.worker_breakdown_s]
    slowest = max(range(len(compute)), key=lambda rank: compute[rank])
    typical = sorted(compute)[len(compute) // 2]
    mean = sum(waiting) / len(waiting)
    if is_laid_out(run):
        idle = [seconds + row.get("bubble", 0.0) for seconds, row in zip(waiting, run.worker_breakdown_s, strict=True)]
        return (
            f"Ranks compute {duration(min(compute))} to {duration(max(compute))} per iteration and wait for others "
            f"{duration(min(idle))} to {duration(max(idle))}"
        )
    if not any(waiting):
        return f"No rank waits for another; rank {slowest} computes longest, {duration(max(compute))} per iteration"
    if max(compute) > 1.01 * typical:
        return (
            f"Rank {slowest} computes {percent(compute[slowest] / typical - 1.0)} longer than the median; "
            f"the mean waiting time is {duration(mean)} per iteration"
        )
    return f"No rank is always slow: the mean waiting time is {duration(mean)} per iteration, for changing ranks"


def _label(run: Run, group: range) -> str:
    if len(group) > 1:
        return f"ranks {group[0]} to {group[-1]}"
    name = ", ".join(filter(None, (place_name(run, group[0]), rank_name(run, group[0]))))
    return f"rank {group[0]} ({name})" if name else f"rank {group[0]}"


def draw_ranks(data: RankBars) -> Figure:
    """Draw one thin stacked bar per rank, side by side."""
    number = len(data.labels)
    totals = [sum(seconds[place] for seconds in data.parts_s.values()) for place in range(number)]
    unit, factor = time_unit(max(totals))
    traces = [
        {
            "type": "bar",
            "name": LABELS[part],
            "showlegend": any(value > _VISIBLE * total for value, total in zip(seconds, totals, strict=True)),
            "x": [place * data.ranks_per_bar for place in range(number)],
            "y": [value / factor for value in seconds],
            "hovertext": [
                f"<b>{plot_text(label)}</b><br>{LABELS[part]}: {duration(value)}<br>of {duration(total)}"
                for label, value, total in zip(data.labels, seconds, totals, strict=True)
            ],
            "hoverinfo": "text",
            "marker": {"color": PARTS[part], "line": {"width": 0}},
        }
        for part, seconds in data.parts_s.items()
    ]
    averaged = f"; each bar is the mean of {count(data.ranks_per_bar)} neighbours" if data.ranks_per_bar > 1 else ""
    return Figure(
        data.title,
        f"Mean iteration of each rank ({unit}), split into its parts{averaged}: {data.run}.",
        traces,
        layout(
            340,
            barmode="stack",
            bargap=0.0 if number > 48 else 0.12,
            xaxis=axis("rank", showgrid=False),
            yaxis=axis(f"one iteration ({unit})", rangemode="tozero"),
            showlegend=True,
            legend=legend(),
        ),
        label=data.run,
        quiet=data.quiet,
    )
