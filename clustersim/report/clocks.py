"""Worker clocks over time: how many iterations each worker is ahead of the slowest one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import series_colour
from clustersim.report.series import run_label
from clustersim.report.words import count, percent, plural, time_unit
from clustersim.results import Run, Sweep

MAX_LINES = 12
"""Workers drawn one by one; of more, the three quartiles are drawn."""

MAX_POINTS = 300
_BOUND = "strategy.bound"


@dataclass(frozen=True)
class Clocks:
    """The figure in numbers.

    `lead` [num_lines][num_times] is how many more iterations a worker has begun than the slowest; `fastest` [num_times]
    is the maximum over workers. `most` and `mean` are the maximum and the mean over time of `fastest`; `bound` is the
    staleness bound of the scenario.
    """

    title: str
    run: str
    time_s: list[float]
    labels: list[str]
    lead: list[list[float]]
    fastest: list[float]
    most: int
    mean: float
    bound: int | None

    @property
    def label_is_rank(self) -> bool:
        """Whether each line is one worker rather than a quantile."""
        return self.labels[0].startswith("rank ")


def clocks_data(sweep: Sweep, run: Run, max_lines: int = MAX_LINES) -> Clocks | None:
    """Return the leads of the workers over the slowest; None where they run in lockstep or are fewer than two."""
    times = _begin_times(run)
    if times is None:
        return None
    first_s, last_s = max(float(own[0]) for own, _ in times), max(float(own[-1]) for own, _ in times)
    events = np.unique(np.concatenate([own for own, _ in times]))
    events = events[(events >= first_s) & (events <= last_s)]
    if len(events) < 2:
        return None
    slowest, fastest = _extremes(times, events)
    lead = fastest - slowest
    if lead.max() < 2:
        return None
    mean = float(np.average(lead[:-1], weights=np.diff(events)))
    grid = events if len(events) <= MAX_POINTS else np.linspace(first_s, last_s, MAX_POINTS)
    low, high = _extremes(times, grid)
    clocks = np.array([_clock(own, numbers, grid) for own, numbers in times]) - low
    labels, lines = _lines(clocks, max_lines)
    most, bound = int(lead.max()), _bound(sweep, run)
    return Clocks(
        title=_title(run, most, mean, bound),
        run=run_label(sweep, run),
        time_s=(grid - first_s).tolist(),
        labels=labels,
        lead=lines.tolist(),
        fastest=(high - low).tolist(),
        most=most,
        mean=mean,
        bound=bound,
    )


def _begin_times(run: Run) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Return for each worker the start times and numbers of its iterations; None where some worker has none."""
    rank = np.asarray(run.cycles.rank, dtype=np.int64)
    begin_s, numbers = np.asarray(run.cycles.begin_s), np.asarray(run.cycles.iteration, dtype=np.int64)
    if run.num_gpus < 2 or len(np.unique(rank)) < run.num_gpus:
        return None
    return [(begin_s[rank == one], numbers[rank == one]) for one in range(run.num_gpus)]


def _clock(begin_s: np.ndarray, numbers: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    """Return the number of the iteration in progress at each time."""
    clock: np.ndarray = numbers[np.maximum(np.searchsorted(begin_s, at_s, side="right") - 1, 0)]
    return clock


def _extremes(times: list[tuple[np.ndarray, np.ndarray]], at_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest clock at each time."""
    low, high = np.full(len(at_s), np.iinfo(np.int64).max), np.full(len(at_s), -1)
    for begin_s, numbers in times:
        clock = _clock(begin_s, numbers, at_s)
        np.minimum(low, clock, out=low)
        np.maximum(high, clock, out=high)
    return low, high


def _lines(lead: np.ndarray, max_lines: int) -> tuple[list[str], np.ndarray]:
    if len(lead) <= max_lines:
        return [f"rank {rank}" for rank in range(len(lead))], lead
    quarters = np.quantile(lead, [0.75, 0.5, 0.25], axis=0)
    return ["upper quartile of the workers", "median", "lower quartile"], quarters


def _bound(sweep: Sweep, run: Run) -> int | None:
    """Return the staleness bound of the scenario in iterations; None without one."""
    value = run.axes.get(_BOUND)
    if value is None:
        strategy = sweep.scenario.get("strategy")
        value = strategy.get("bound") if isinstance(strategy, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _title(run: Run, most: int, mean: float, bound: int | None) -> str:
    waited = run.breakdown_s.get("waiting", 0.0) / run.iteration_s
    far = f"The fastest worker is up to {plural(most, 'iteration')} ahead of the slowest, {mean:.1f} on average"
    if waited >= 0.005:
        return f"{far}; workers wait {percent(waited)} of the time"
    return f"{far}; no worker waits"


def draw_clocks(data: Clocks) -> Figure:
    """Draw one step line per worker relative to the slowest one's clock, in the band from slowest to fastest."""
    unit, factor = time_unit(data.time_s[-1])
    x = [float(f"{time / factor:.6g}") for time in data.time_s]
    band: Json = {
        "type": "scatter",
        "mode": "lines",
        "name": "slowest to fastest",
        "x": x,
        "y": data.fastest,
        "line": {"width": 0, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": "@grid",
        "hovertemplate": f"%{{x:.4g}} {unit}: the fastest is %{{y:.0f}} ahead<extra></extra>",
    }
    lines = [_line(data, number, x, unit) for number in range(len(data.labels))]
    height = max([*data.fastest, data.bound + 1.0 if data.bound is not None else 0.0])
    drawn = layout(
        360,
        xaxis=axis(f"time ({unit})", range=[0, x[-1]], showgrid=False),
        yaxis=axis(
            "iterations ahead of the slowest",
            range=[-0.25, 1.1 * height + 0.2],
            **({"dtick": 1} if height <= 10 else {}),
        ),
        shapes=_bound_line(data),
        annotations=_bound_name(data),
        showlegend=True,
        legend=legend(),
    )
    under = f"Iterations begun by each worker minus those of the slowest, over time ({unit}): {data.run}. " + (
        "Lines are shifted slightly so that they do not overlap." if data.label_is_rank else ""
    )
    return Figure(data.title, under, [band, *lines], drawn, {"xaxis": {"nticks": 5}}, label=data.run)


def _line(data: Clocks, number: int, x: list[float], unit: str) -> Json:
    """Return one line, shifted slightly so that it does not cover another."""
    shift = 0.3 * ((number + 0.5) / len(data.labels) - 0.5) if data.label_is_rank else 0.0
    return {
        "type": "scatter",
        "mode": "lines",
        "name": data.labels[number],
        "x": x,
        "y": [round(lead + shift, 4) for lead in data.lead[number]],
        "customdata": data.lead[number],
        "line": {
            "color": series_colour(number),
            "width": 1.6,
            "shape": "hv",
            "dash": ("solid", "dot", "dash")[number // 6 % 3],
        },
        "hovertemplate": f"<b>{data.labels[number]}</b><br>%{{x:.4g}} {unit}: %{{customdata:.3g}} ahead<extra></extra>",
    }


def _bound_line(data: Clocks) -> list[Json]:
    if data.bound is None:
        return []
    y = data.bound + 1
    line = {"color": "@ink", "width": 1.2, "dash": "dash"}
    return [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}]


def _bound_name(data: Clocks) -> list[Json]:
    if data.bound is None:
        return []
    text = f"staleness bound {count(data.bound)}: a worker this far ahead waits"
    return [
        {"x": 1, "xref": "paper", "y": data.bound + 1, "text": text, "showarrow": False, "xanchor": "right",
         "yanchor": "bottom", "font": {"size": 12, "color": "@muted"}}
    ]  # fmt: skip
