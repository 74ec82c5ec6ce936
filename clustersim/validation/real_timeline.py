"""Timelines of one iteration, measured above simulated, on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.lanes import COMMUNICATION, MAX_MARKS, select_marks
from clustersim.report.marks import Mark
from clustersim.report.palette import LABELS, PARTS
from clustersim.report.words import duration, percent, plot_text, time_unit
from clustersim.results import Run, Spans, WorkerIterations
from clustersim.validation.real_file import AllReducePhase, AsynchronousPhase, SpanColumns, SynchronousPhase
from clustersim.validation.real_jobs import PhaseResult

MAX_RANKS = 8
"""Most ranks that are drawn, for both timelines each."""

_ORDER = ("forward", "backward", "update", "communication", "copy", "exposed", "waiting")
_GROUPS = {
    "forward": "forward",
    "backward": "backward",
    "update": "update",
    "copy": "copies",
    "exposed": "exposed communication or waiting",
    "waiting": "exposed communication or waiting",
}
_LANE_PX = 36


@dataclass(frozen=True)
class TimelineRow:
    """A row: `what` is measured or simulated, `role` is rank or, if rank 0 is a server, worker."""

    what: str
    rank: int
    role: str = "rank"

    def __str__(self) -> str:
        return f"{self.what} · {self.role} {self.rank}"


@dataclass(frozen=True)
class Pair:
    """Two timelines of one phase. `marks` are (number of the lane, mark), in seconds from the start of the first rank.

    `differences_s` is simulated minus measured time of each part of an iteration, mean over ranks.
    """

    phase: str
    simulated_s: float
    measured_s: float
    metric: str
    lanes: tuple[TimelineRow, ...]
    marks: tuple[tuple[int, Mark], ...]
    length_s: float
    differences_s: Mapping[str, float]
    note: str


def pair_data(answered: PhaseResult) -> Pair | None:
    """Return the timelines of a phase; None if it has no spans or is not a training."""
    phase, run = answered.phase, answered.run
    if run is None or isinstance(phase, AllReducePhase) or not phase.spans.kind or not answered.points:
        return None
    is_synchronous = not isinstance(phase, AsynchronousPhase)
    ranks = phase.workers if isinstance(phase, SynchronousPhase | AsynchronousPhase) else None
    spans = measured_spans(phase.spans, ranks, run if not is_synchronous else None, alone=run.num_gpus == 1)
    if not len(spans):
        return None
    real = select_marks(replace(run, spans=spans, cycles=WorkerIterations()), MAX_MARKS // 2, MAX_RANKS)
    ours = select_marks(run, MAX_MARKS // 2, MAX_RANKS)
    if real is None or ours is None:
        return None
    role = "rank" if ranks is None else "worker"
    shown = (("measured", real.ranks), ("simulated", ours.ranks))
    lanes = [TimelineRow(what, rank, role) for what, numbers in shown for rank in numbers]
    place = {(lane.what, lane.rank): number for number, lane in enumerate(lanes)}
    marks = [(place["measured", mark.rank], mark) for mark in real.marks]
    marks += [(place["simulated", mark.rank], mark) for mark in ours.marks]
    point = answered.points[0]
    return Pair(
        phase=point.label,
        simulated_s=point.simulated / 1e3,
        measured_s=point.measured / 1e3,
        metric="an iteration" if is_synchronous else "an update",
        lanes=tuple(lanes),
        marks=tuple(marks),
        length_s=max(real.length_s, ours.length_s),
        differences_s=_differences(spans, run.spans, run.num_gpus) if is_synchronous else {},
        note="; ".join(dict.fromkeys(filter(None, (real.note, ours.note)))).partition(" All of it")[0],
    )


def measured_spans(spans: SpanColumns, ranks: Sequence[int] | None, stretch: Run | None, alone: bool) -> Spans:
    """Return the iteration whose length is nearest to the median, in seconds from the start of its first rank.

    Ranks are numbered as workers. A rank that has computed waits until the last rank has computed; from then on it is
    in exposed communication. For asynchronous workers (`stretch` is the simulated run), a part of the length of the
    simulated one is taken from the middle. With `alone`, only rank 0 is returned.
    """
    names = {rank: number for number, rank in enumerate(ranks or sorted(set(spans.rank)))}
    rows = [
        (kind, names[rank], iteration, start_s, end_s, name)
        for kind, rank, iteration, start_s, end_s, name in zip(
            spans.kind, spans.rank, spans.iteration, spans.start_s, spans.end_s, spans.name, strict=True
        )
        if rank in names and not (alone and names[rank] > 0)
    ]
    if stretch is not None:
        return _stretch(rows, max(stretch.spans.end_s, default=0.0))
    rows = [row for row in rows if row[2] == _typical(rows)]
    return _with_waiting(rows)


_Row = tuple[str, int, int, float, float, str]


def _typical(rows: Sequence[_Row]) -> int:
    """Return the number of the iteration whose length is nearest to the median."""
    ends: dict[int, tuple[float, float]] = {}
    for _, _, iteration, start_s, end_s, _ in rows:
        first_s, last_s = ends.get(iteration, (start_s, end_s))
        ends[iteration] = (min(first_s, start_s), max(last_s, end_s))
    lengths = {iteration: last_s - first_s for iteration, (first_s, last_s) in ends.items()}
    middle_s = median(lengths.values()) if lengths else 0.0
    return min(lengths, key=lambda iteration: abs(lengths[iteration] - middle_s), default=0)


def _with_waiting(rows: Sequence[_Row]) -> Spans:
    """Return the spans of one iteration; exposed time counts as waiting until the last rank has computed."""
    found = Spans()
    origin = min((row[3] for row in rows), default=0.0)
    last_s = max((row[3] for row in rows if row[0] == "exposed"), default=0.0)
    for kind, rank, _, start_s, end_s, name in rows:
        if kind == "exposed":
            until_s = min(max(start_s, last_s), end_s)
            _add(found, "waiting", rank, start_s - origin, until_s - origin, name)
            _add(found, "exposed", rank, until_s - origin, end_s - origin, name)
        else:
            _add(found, kind, rank, start_s - origin, end_s - origin, name)
    return found


def _stretch(rows: Sequence[_Row], length_s: float) -> Spans:
    """Return the spans of `length_s` seconds from the start of the first worker's middle iteration."""
    found = Spans()
    begins = sorted(row[3] for row in rows if row[0] == "forward" and row[1] == 0)
    if not begins:
        return found
    origin = begins[len(begins) // 2]
    for kind, rank, _, start_s, end_s, name in rows:
        _add(found, kind, rank, max(0.0, start_s - origin), min(length_s, end_s - origin), name)
    return found


def _add(spans: Spans, kind: str, rank: int, start_s: float, end_s: float, name: str) -> None:
    if end_s > start_s:
        spans.add(kind, rank, 0, start_s, end_s, name)


def _differences(measured: Spans, simulated: Spans, num_ranks: int) -> dict[str, float]:
    """Return how much longer each part of an iteration is in the simulation, in seconds, mean over ranks."""
    found: dict[str, float] = {}
    for sign, spans in ((1.0, simulated), (-1.0, measured)):
        for kind, _, _, start_s, end_s, _, _ in spans.rows():
            if kind in _GROUPS:
                part = _GROUPS[kind]
                found[part] = found.get(part, 0.0) + sign * (end_s - start_s) / num_ranks
    return found


def pair_title(data: Pair) -> str:
    """Return the error, and the part of the iteration with most of it."""
    error = percent(data.simulated_s / data.measured_s - 1, signed=True)
    title = (
        f"{data.phase}: {data.metric} takes {duration(data.simulated_s)} simulated, {duration(data.measured_s)} "
        f"measured ({error})"
    )
    part = max(data.differences_s, key=lambda part: abs(data.differences_s[part]), default=None)
    if part is None or abs(data.differences_s[part]) < 0.02 * data.measured_s:
        return title
    more = data.differences_s[part]
    return f"{title}; {part} is {duration(abs(more))} {'longer' if more > 0 else 'shorter'} in the simulation"


def draw_pair(data: Pair) -> Figure:
    """Draw measured lanes above simulated ones; measured bars have a dark edge."""
    unit, factor = time_unit(data.length_s)
    present = [kind for kind in _ORDER if any(mark.kind == kind for _, mark in data.marks)]
    traces = [_trace(kind, data, factor) for kind in present]
    last = len(data.lanes)
    first_simulated = next(number for number, lane in enumerate(data.lanes) if lane.what == "simulated")
    height = 130 + _LANE_PX * last
    drawn = layout(
        height,
        barmode="overlay",
        shapes=[_divide(first_simulated)],
        xaxis=axis(f"time ({unit})", range=[0, 1.01 * data.length_s / factor]),
        yaxis=axis(
            tickvals=list(range(last)),
            ticktext=[str(lane) for lane in data.lanes],
            range=[last - 0.4, -0.6],
            showgrid=False,
        ),
        showlegend=True,
        legend=legend(),
    )
    narrow: Json = {
        "yaxis": {"ticktext": [f"{lane.what[0]} {lane.rank}" for lane in data.lanes]},
        "xaxis": {"nticks": 5},
        "height": height + 60,
    }
    subtitle = (
        f"Time ({unit}) to the right; measured above, simulated below. Thick bars: activity of a rank; thin bars: its "
        "gradients in flight."
    )
    return Figure(pair_title(data), subtitle, traces, drawn, narrow, label=data.phase, note=data.note)


def _trace(kind: str, data: Pair, factor: float) -> Json:
    thin = kind in COMMUNICATION
    rows = [(place, mark) for place, mark in data.marks if mark.kind == kind]
    is_measured = [data.lanes[place].what == "measured" for place, _ in rows]
    return {
        "type": "bar",
        "orientation": "h",
        "name": LABELS[kind],
        "base": [float(f"{mark.start_s / factor:.6g}") for _, mark in rows],
        "x": [float(f"{(mark.end_s - mark.start_s) / factor:.6g}") for _, mark in rows],
        "y": [place + (0.28 if thin else -0.12) for place, _ in rows],
        "width": 0.22 if thin else 0.52,
        "hovertext": [_hover(data.lanes[place], mark) for place, mark in rows],
        "hoverinfo": "text",
        "marker": {
            "color": PARTS[kind],
            "line": {
                "color": ["@ink" if real else "@surface" for real in is_measured],
                "width": [_edge(mark, data, real) for real, (_, mark) in zip(is_measured, rows, strict=True)],
            },
        },
    }


def _edge(mark: Mark, data: Pair, is_measured: bool) -> float:
    """Return the width of the line around a bar: 0 if the bar is hardly wider than the line."""
    wide = mark.end_s - mark.start_s > data.length_s / 150
    return (1.0 if is_measured else 0.5) if wide else 0.0


def _hover(lane: TimelineRow, mark: Mark) -> str:
    words = [f"<b>{lane}</b>"]
    words.append(f"{LABELS[mark.kind]} {plot_text(mark.name)}: {duration(mark.end_s - mark.start_s)}")
    return "<br>".join([*words, plot_text(mark.cause)] if mark.cause else words)


def _divide(first_simulated: int) -> Json:
    """Return the line between measured and simulated lanes."""
    place = first_simulated - 0.52
    line = {"color": "@muted", "width": 1}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": place, "y1": place, "line": line}
