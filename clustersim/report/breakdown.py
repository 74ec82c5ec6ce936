"""Time breakdown: each run's iteration as one bar of its parts."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend, names_over
from clustersim.report.limiting import overhead
from clustersim.report.options import main_cell, question_of
from clustersim.report.palette import LABELS, PARTS, text_on
from clustersim.report.series import headline, largest, of_model, run_label, series, setting
from clustersim.report.words import duration, gpus, percent, plot_text, time_unit
from clustersim.results import BREAKDOWN, Run, Sweep

_VISIBLE = 0.002
"""Share of an iteration below which a part is too short to be seen, so that it has no place in the legend."""


@dataclass(frozen=True)
class Breakdown:
    """The figure in numbers: `parts_s[part]` is [num_runs] seconds of an iteration; they sum to `iteration_s`.

    `uneven`: one iteration is more than six times as long as another.
    """

    title: str
    runs: list[str]
    parts_s: dict[str, list[float]]
    iteration_s: list[float]
    uneven: bool


def breakdown_data(sweep: Sweep) -> Breakdown:
    """Return the parts of every run's iteration, series by series, smallest first, without parts that are always 0."""
    runs = [run for one in series(sweep) for run in one.runs]
    parts = {part: [run.breakdown_s.get(part, 0.0) for run in runs] for part in BREAKDOWN}
    return Breakdown(
        title=breakdown_title(sweep),
        runs=_names(sweep, runs),
        parts_s={part: seconds for part, seconds in parts.items() if max(seconds) > 1e-9 * runs[0].iteration_s},
        iteration_s=[run.iteration_s for run in runs],
        uneven=max(run.iteration_s for run in runs) > 6 * min(run.iteration_s for run in runs),
    )


def _names(sweep: Sweep, runs: list[Run]) -> list[str]:
    """Return the names of the rows: their settings only where all runs have one size."""
    alike = len({run.num_gpus for run in runs}) == 1 and len(runs) > 1
    return [setting(sweep, run) if alike else run_label(sweep, run) for run in runs]


def breakdown_title(sweep: Sweep) -> str:
    """Name the largest part of an iteration at the largest size, compute excluded."""
    question = question_of(sweep)
    cell = main_cell(question)
    is_compared = len(question.choices) > 0 and len(cell.runs) > 1
    run, rivals = (question.best(cell), cell.runs) if is_compared else (headline(sweep), largest(sweep))
    part = overhead(run)
    if part is None or run.breakdown_s[part] < 0.03 * run.iteration_s:
        return _all_computing(sweep, run, rivals[-1])
    if len(rivals) == 1:
        return (
            f"{_where(run)}, {LABELS[part]} takes {percent(run.breakdown_s[part] / run.iteration_s)} of each iteration"
            f"{of_model(sweep)}"
        )
    last = rivals[-1]
    shares = [percent(one.breakdown_s.get(part, 0.0) / one.iteration_s) for one in (run, last)]
    return (
        f"{_where(run)}, {LABELS[part]} takes {shares[0]} of each iteration with {setting(sweep, run)}, "
        f"and {shares[1]} with {setting(sweep, last)}"
    )


def _all_computing(sweep: Sweep, run: Run, last: Run) -> str:
    """Say that an iteration is mostly compute, and what it is in the slowest run of the same size."""
    share = run.breakdown_s.get("compute", 0.0) / run.iteration_s
    what = f"{percent(share)} compute"
    part = overhead(last)
    if last is run or part is None or last.breakdown_s[part] < 0.03 * last.iteration_s:
        return f"{_where(run)}, each iteration{of_model(sweep)} is {what}"
    return (
        f"{_where(run)}, each iteration with {setting(sweep, run)} is {what}; with {setting(sweep, last)}, "
        f"{percent(last.breakdown_s[part] / last.iteration_s)} is {LABELS[part]}"
    )


def _where(run: Run) -> str:
    return f"On {gpus(run.num_gpus)}" if run.num_gpus == 1 else f"At {gpus(run.num_gpus)}"


def draw_breakdown(data: Breakdown) -> Figure:
    """Draw one stacked bar per run; its length is the iteration in seconds."""
    unit, factor = time_unit(max(data.iteration_s))
    under = f"Time of one iteration, mean over all workers ({unit}), split into its parts."
    return _draw(data, [1.0 / factor for _ in data.runs], f"one iteration ({unit})", under, "seconds")


def draw_shares(data: Breakdown) -> Figure:
    """Draw one stacked bar per run, all of one length: the shares of its iteration."""
    under = "Shares of one iteration (%), mean over all workers; the labels are times."
    return _draw(data, [100.0 / total for total in data.iteration_s], "share of one iteration (%)", under, "shares")


def _draw(data: Breakdown, scale: list[float], title: str, under: str, label: str) -> Figure:
    places = list(range(len(data.runs)))
    labels = [plot_text(run) for run in data.runs]
    lengths = [total * factor for total, factor in zip(data.iteration_s, scale, strict=True)]
    height = 110 + (46 if len(places) <= 8 else 30) * len(places)
    drawn = layout(
        height,
        barmode="stack",
        bargap=0.25,
        xaxis=axis(title, range=[0, 1.12 * max(lengths)], **_ticks(max(lengths))),
        yaxis=axis(range=[len(places) - 0.4, -0.6], tickvals=places, ticktext=labels, showgrid=False, fixedrange=True),
        uniformtext={"minsize": 10, "mode": "hide"},
        showlegend=True,
        legend=legend(),
    )
    narrow = {
        **names_over(data.runs),
        "xaxis": {"range": [0, 1.25 * max(lengths)], "nticks": 5},
        "bargap": 0.55,
        "height": 140 + 52 * len(places),
    }
    traces = [*(_trace(data, part, scale) for part in data.parts_s), _totals(data, lengths)]
    return Figure(data.title, under, traces, drawn, narrow, label=label)


def _ticks(longest: float) -> Json:
    return {"tickvals": [0, 25, 50, 75, 100]} if abs(longest - 100.0) < 1e-6 else {}


def _totals(data: Breakdown, lengths: list[float]) -> Json:
    return {
        "type": "scatter",
        "mode": "text",
        "x": lengths,
        "y": list(range(len(lengths))),
        "text": [f"  <b>{duration(total)}</b>" for total in data.iteration_s],
        "textposition": "middle right",
        "cliponaxis": False,
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _trace(data: Breakdown, part: str, scale: list[float]) -> Json:
    values = data.parts_s[part]
    hover = [
        f"<b>{plot_text(run)}</b><br>{LABELS[part]}: {duration(seconds)}"
        f"<br>{percent(seconds / total)} of {duration(total)}"
        for run, seconds, total in zip(data.runs, values, data.iteration_s, strict=True)
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "name": LABELS[part],
        "showlegend": any(seconds > _VISIBLE * total for seconds, total in zip(values, data.iteration_s, strict=True)),
        "x": [seconds * factor for seconds, factor in zip(values, scale, strict=True)],
        "y": list(range(len(values))),
        "text": [duration(seconds) for seconds in values],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": text_on(PARTS[part]), "size": 12},
        "hovertext": hover,
        "hoverinfo": "text",
        "marker": {"color": PARTS[part], "line": {"color": "@surface", "width": 1}},
    }
