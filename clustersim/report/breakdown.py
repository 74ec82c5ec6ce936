"""Where the time goes: each run's iteration as one bar of its parts."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import LABELS, PARTS, text_on
from clustersim.report.series import headline, largest, run_label, series, series_label, varied
from clustersim.report.words import duration, gpus, listed, percent, plot_text, time_unit
from clustersim.results import BREAKDOWN, Run, Sweep


@dataclass(frozen=True)
class Breakdown:
    """The figure in numbers: `parts_s[part]` is [num_runs] seconds of an iteration; they sum to `iteration_s`."""

    title: str
    runs: list[str]
    parts_s: dict[str, list[float]]
    iteration_s: list[float]


def breakdown_data(sweep: Sweep) -> Breakdown:
    """Return the parts of every run's iteration, series by series, smallest first; parts nobody has are left out."""
    runs = [run for one in series(sweep) for run in one.runs]
    parts = {part: [run.breakdown_s.get(part, 0.0) for run in runs] for part in BREAKDOWN}
    return Breakdown(
        title=breakdown_title(sweep),
        runs=[run_label(sweep, run) for run in runs],
        parts_s={part: seconds for part, seconds in parts.items() if any(seconds)},
        iteration_s=[run.iteration_s for run in runs],
    )


def breakdown_title(sweep: Sweep) -> str:
    """Say what takes the most of an iteration at the largest size, apart from computing."""
    run, rivals = headline(sweep), largest(sweep)
    part = overhead(run)
    if part is None:
        return f"{_where(run)} each iteration is computing, all of it"
    if run.breakdown_s[part] < 0.03 * run.iteration_s:
        return f"{_where(run)} {percent(run.breakdown_s['compute'] / run.iteration_s)} of each iteration is computing"
    if len(rivals) == 1:
        return (
            f"{_where(run)} {LABELS[part]} takes {percent(run.breakdown_s[part] / run.iteration_s)} of each iteration"
        )
    last = rivals[-1]
    shares = [
        f"{percent(one.breakdown_s.get(part, 0.0) / one.iteration_s)} with {series_label(one, varied(sweep))}"
        for one in (run, last)
    ]
    return f"{_where(run)} {LABELS[part]} takes {listed(shares)} of each iteration"


def overhead(run: Run) -> str | None:
    """Return the longest part of an iteration that is not computing; None where there is none."""
    others = {part: seconds for part, seconds in run.breakdown_s.items() if part != "compute" and seconds > 0}
    return max(others, key=lambda part: others[part]) if others else None


def _where(run: Run) -> str:
    return f"On {gpus(run.num_gpus)}" if run.num_gpus == 1 else f"At {gpus(run.num_gpus)}"


def draw_breakdown(data: Breakdown) -> Figure:
    """Draw a stacked bar a run, in seconds."""
    unit, factor = time_unit(max(data.iteration_s))
    scaled = {part: [value / factor for value in seconds] for part, seconds in data.parts_s.items()}
    texts = {part: [duration(value) for value in seconds] for part, seconds in data.parts_s.items()}
    totals = [f"<b>{duration(total)}</b>" for total in data.iteration_s]
    drawn = _draw(
        data, scaled, texts, totals, [total / factor for total in data.iteration_s], f"one iteration ({unit})"
    )
    return Figure(
        data.title,
        f"Mean time of one iteration over all workers ({unit}), by what it is spent on.",
        *drawn,
        label="time",
    )


def draw_shares(data: Breakdown) -> Figure:
    """Draw a stacked bar a run, in per cent of its iteration."""
    shares = {
        part: [100.0 * value / total for value, total in zip(seconds, data.iteration_s, strict=True)]
        for part, seconds in data.parts_s.items()
    }
    texts = {part: [percent(value / 100.0) for value in values] for part, values in shares.items()}
    drawn = _draw(data, shares, texts, ["" for _ in data.runs], [100.0] * len(data.runs), "share of one iteration (%)")
    return Figure(
        data.title, "Share of one iteration (%), by what it is spent on; mean over all workers.", *drawn, label="share"
    )


def _draw(
    data: Breakdown, values: dict[str, list[float]], texts: dict[str, list[str]], totals: list[str],
    lengths: list[float], title: str,
) -> tuple[list[Json], Json, Json]:  # fmt: skip
    places = list(range(len(data.runs)))
    labels = [plot_text(run) for run in data.runs]
    traces = [_trace(data, part, values[part], texts[part], places) for part in data.parts_s]
    end = {"type": "scatter", "mode": "text", "x": lengths, "y": places, "text": totals, "cliponaxis": False}
    traces.append({**end, "textposition": "middle right", "showlegend": False, "hoverinfo": "skip"})
    ticks: Json = {"tickvals": places, "ticktext": labels, "range": [len(places) - 0.4, -0.6]}
    bar_px = 46 if len(places) <= 8 else 30
    height = 110 + bar_px * len(places)
    drawn = layout(
        height,
        barmode="stack",
        bargap=0.25,
        xaxis=axis(title, range=[0, 1.12 * max(lengths) if any(totals) else max(lengths)]),
        yaxis=axis(**ticks, showgrid=False, fixedrange=True),
        uniformtext={"minsize": 10, "mode": "hide"},
        showlegend=True,
        legend=legend(),
    )
    narrow = {
        "yaxis": {"ticktext": [label.replace(", ", "<br>") for label in labels]},
        "xaxis": {"range": [0, 1.3 * max(lengths) if any(totals) else max(lengths)], "nticks": 5},
        "height": height + 30,
    }
    return traces, drawn, narrow


def _trace(data: Breakdown, part: str, values: list[float], texts: list[str], places: list[int]) -> Json:
    hover = [
        f"<b>{plot_text(run)}</b><br>{LABELS[part]}: {duration(seconds)}"
        f"<br>{percent(seconds / total)} of {duration(total)}"
        for run, seconds, total in zip(data.runs, data.parts_s[part], data.iteration_s, strict=True)
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "name": LABELS[part],
        "x": values,
        "y": places,
        "text": texts,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": text_on(PARTS[part]), "size": 12},
        "hovertext": hover,
        "hoverinfo": "text",
        "marker": {"color": PARTS[part], "line": {"color": "@surface", "width": 1}},
    }
