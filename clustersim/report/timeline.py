"""One iteration as lanes: what each rank does, and which buckets are in flight meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.lanes import COMMUNICATION, MAX_MARKS, Chosen, Mark, choose
from clustersim.report.palette import LABELS, PARTS
from clustersim.report.series import run_label
from clustersim.report.words import duration, percent, plot_text, time_unit
from clustersim.results import Run, Sweep

_ORDER = ("forward", "backward", "update", "input", "communication", "copy", "exposed", "waiting", "bubble", "recovery")
_LANE_PX = 40


@dataclass(frozen=True)
class Lane:
    """One rank: its number, what it is called, and whether the others wait for it."""

    rank: int
    name: str
    slowest: bool


@dataclass(frozen=True)
class Timeline:
    """The figure in numbers: `marks` carry seconds from the start of the iteration."""

    title: str
    run: str
    iteration: int
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    length_s: float
    note: str
    separate: bool  # whether the bars are few enough to draw a line between neighbours


def timeline_data(sweep: Sweep, run: Run, max_marks: int = MAX_MARKS) -> Timeline | None:
    """Return one iteration of a run as marks in lanes; None where the run recorded no spans."""
    chosen = choose(run, max_marks)
    if chosen is None:
        return None
    return Timeline(
        title=timeline_title(run, chosen),
        run=run_label(sweep, run),
        iteration=chosen.iteration,
        lanes=tuple(Lane(rank, rank_name(run, rank), rank == chosen.slowest) for rank in chosen.ranks),
        marks=tuple(chosen.marks),
        length_s=chosen.length_s,
        note=chosen.note,
        separate=len(chosen.marks) < 40 * len(chosen.ranks),
    )


def rank_name(run: Run, rank: int) -> str:
    """Return what a rank's GPU is called, such as `host0/gpu3`; empty where it has no name."""
    return run.rank_names[rank] if rank < len(run.rank_names) else ""


def timeline_title(run: Run, chosen: Chosen) -> str:
    """Say who holds the others up, or what else the ranks spend the iteration on."""
    if chosen.num_ranks == 1:
        return f"One GPU: nobody to wait for, nothing to send; an iteration takes {duration(chosen.length_s)}"
    waited = max(_seconds(chosen, rank, "waiting") for rank in chosen.ranks)
    exposed = max(_seconds(chosen, rank, "exposed") for rank in chosen.ranks)
    slow = _slow(chosen) if waited > 0.01 * chosen.length_s else ""
    if exposed > max(waited, 0.01 * chosen.length_s):
        share = percent(exposed / chosen.length_s)
        who = f"; {slow}, the others wait up to {duration(waited)}" if slow else ""
        return f"Every rank idles {duration(exposed)}, {share} of the iteration, for communication{who}"
    if slow:
        return f"{slow[0].upper()}{slow[1:]}; others wait for it up to {duration(waited)}"
    return (
        f"All {chosen.num_ranks} ranks compute almost all of the {duration(chosen.length_s)}: communication is hidden"
    )


def _slow(chosen: Chosen) -> str:
    if chosen.slowest is None:
        return ""
    typical = sorted(chosen.busy_s.values())[len(chosen.busy_s) // 2]
    return (
        f"rank {chosen.slowest} is slowest, {percent(chosen.busy_s[chosen.slowest] / typical - 1.0)} above the median"
    )


def _seconds(chosen: Chosen, rank: int, kind: str) -> float:
    return sum(mark.end_s - mark.start_s for mark in chosen.marks if mark.rank == rank and mark.kind == kind)


def draw_timeline(data: Timeline) -> Figure:
    """Draw a bar a mark: the upper bar of a lane is the rank itself, the thin lower one its communication."""
    unit, factor = time_unit(data.length_s)
    place = {lane.rank: number for number, lane in enumerate(data.lanes)}
    kinds = [kind for kind in _ORDER if any(mark.kind == kind for mark in data.marks)]
    traces = [_trace(kind, [mark for mark in data.marks if mark.kind == kind], place, factor, data) for kind in kinds]
    last = len(data.lanes)
    height = 120 + _LANE_PX * last
    drawn = layout(
        height,
        barmode="overlay",
        shapes=[_stripe(number) for number, lane in enumerate(data.lanes) if lane.slowest],
        xaxis=axis(f"time in iteration {data.iteration} ({unit})", range=[0, 1.01 * data.length_s / factor]),
        yaxis=axis(
            tickvals=list(range(last)),
            ticktext=[_label(lane, long=True) for lane in data.lanes],
            range=[last - 0.4, -0.6],
            showgrid=False,
        ),
        showlegend=True,
        legend=legend(),
    )
    narrow = {
        "yaxis": {"ticktext": [_label(lane, long=False) for lane in data.lanes]},
        "xaxis": {"nticks": 5},
        "height": height + 60,
    }
    return Figure(
        data.title,
        f"One iteration of {data.run}, time ({unit}) to the right. Thick bars: what the GPU does; thin bars: its "
        "buckets in flight. The slowest rank is shaded.",
        traces, drawn, narrow, label=data.run, note=data.note,
    )  # fmt: skip


def _trace(kind: str, marks: list[Mark], place: dict[int, int], factor: float, data: Timeline) -> Json:
    thin = kind in COMMUNICATION
    names = {lane.rank: lane.name for lane in data.lanes}
    return {
        "type": "bar",
        "orientation": "h",
        "name": LABELS[kind],
        "base": [_short(mark.start_s / factor) for mark in marks],
        "x": [_short((mark.end_s - mark.start_s) / factor) for mark in marks],
        "y": [place[mark.rank] + (0.28 if thin else -0.12) for mark in marks],
        "width": 0.22 if thin else 0.52,
        "hovertext": [_hover(mark, names[mark.rank]) for mark in marks],
        "hoverinfo": "text",
        "marker": {"color": PARTS[kind], "line": {"color": "@surface", "width": 0.5 if data.separate else 0}},
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _hover(mark: Mark, name: str) -> str:
    rank = f"rank {mark.rank} ({plot_text(name)})" if name else f"rank {mark.rank}"
    words = [f"<b>{rank}</b>", f"{LABELS[mark.kind]} {plot_text(mark.name)}: {duration(mark.end_s - mark.start_s)}"]
    return "<br>".join([*words, plot_text(mark.cause)] if mark.cause else words)


def _label(lane: Lane, long: bool) -> str:
    text = f"{lane.rank} · {plot_text(lane.name)}" if long and lane.name else str(lane.rank)
    return f"<b>{'slowest ▸ ' if long else '▸ '}{text}</b>" if lane.slowest else text


def _stripe(number: int) -> Json:
    return {
        "type": "rect",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": number - 0.46,
        "y1": number + 0.46,
        "fillcolor": "@mark",
        "line": {"width": 0},
        "layer": "below",
    }
