"""Timeline of one iteration: one lane per rank, with its compute and its buckets in flight."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.lanes import COMMUNICATION, MAX_MARKS, Selection, select_marks
from clustersim.report.marks import MICRO_BATCH, Mark
from clustersim.report.palette import KIND_PATTERNS, LABELS, PARTS, text_on
from clustersim.report.rank_names import part_word, place_name, rank_name
from clustersim.report.series import run_label
from clustersim.report.words import duration, percent, plot_text, time_unit
from clustersim.results import Run, Sweep

_ORDER = (
    *("forward", "recompute", "backward", "weights", "update", "input", "communication", "copy", "host-update", "host"),
    *("exposed", "waiting", "bubble", "offload", "recovery"),
)
_COMPUTED = ("forward", "recompute", "backward", "weights")
_HATCHING: Json = {"fillmode": "overlay", "size": 5, "solidity": 0.25}
_LEAST_TEXT = 1 / 60
"""Share of the figure's length from which on a bar is wide enough for the number of its micro-batch."""
_LEAST_TEXT_NARROW = 1 / 16
_LANE_PX = 40
_LEGEND_PX = 22
"""Height of a line of the legend; on a narrow screen it has one line per kind."""
_SHIFTED = 0.02
"""Share of the figure's length from which on different starts of lanes are visible."""


@dataclass(frozen=True)
class TimelineLane:
    """One rank: its number, its GPU, whether it is the awaited one, and its position in a layout."""

    rank: int
    name: str
    last: bool
    place: str = ""


@dataclass(frozen=True)
class TimelineData:
    """The figure in numbers: `marks` have seconds from the start of the iteration, which may have no number.

    Where ranks are not `in_lockstep` it shows several iterations.
    """

    title: str
    run: str
    iteration: int | None
    lanes: tuple[TimelineLane, ...]
    marks: tuple[Mark, ...]
    length_s: float
    note: str
    in_lockstep: bool = True

    @property
    def begins_apart(self) -> bool:
        """Whether ranks in lockstep ended the previous iteration at different times."""
        begins_s = [min(mark.start_s for mark in self.marks if mark.rank == lane.rank) for lane in self.lanes]
        return self.in_lockstep and max(begins_s) > _SHIFTED * self.length_s

    @cached_property
    def has_micro_batches(self) -> bool:
        """Whether the marks have several micro-batch numbers."""
        return len({mark.name.partition(MICRO_BATCH)[2] for mark in self.marks if mark.kind in _COMPUTED} - {""}) > 1


def timeline_data(sweep: Sweep, run: Run, max_marks: int = MAX_MARKS) -> TimelineData | None:
    """Return one iteration of a run as marks in lanes; None where the run recorded no spans."""
    chosen = select_marks(run, max_marks)
    if chosen is None:
        return None
    return TimelineData(
        title=timeline_title(run, chosen),
        run=run_label(sweep, run),
        iteration=chosen.iteration if chosen.in_lockstep and not chosen.laid_out else None,
        lanes=tuple(
            TimelineLane(rank, rank_name(run, rank), rank == chosen.last, place_name(run, rank))
            for rank in chosen.ranks
        ),
        marks=tuple(chosen.marks),
        length_s=chosen.length_s,
        note=chosen.note,
        in_lockstep=chosen.in_lockstep,
    )


def timeline_title(run: Run, chosen: Selection) -> str:
    """Name the awaited rank, or the largest idle part of the iteration."""
    offload_s = run.breakdown_s.get("offload", 0.0)
    others_s = chosen.exposed_s, chosen.waited_s, chosen.bubble_s, 0.01 * chosen.iteration_s
    if offload_s > max(others_s):
        subject = "One GPU waits" if run.num_gpus == 1 else "Ranks wait"
        waiting = f"{duration(offload_s)}, {percent(offload_s / run.iteration_s)} of the iteration"
        return f"{subject} {waiting}, for copies to and from the host and its updates"
    if run.num_gpus == 1:
        return f"One GPU, without communication: an iteration takes {duration(chosen.length_s)}"
    if not chosen.in_lockstep:
        return _stretch_title(run, chosen)
    if chosen.bubble_s > max(chosen.exposed_s, 0.01 * chosen.iteration_s):
        return _stages_title(part_word(run), chosen)
    late = ""
    if chosen.last is not None:
        late = f"rank {chosen.last} is ready {duration(chosen.late_s)} after the median; others wait up to " + duration(
            chosen.waited_s
        )
    if chosen.exposed_s > max(chosen.waited_s, 0.01 * chosen.length_s):
        share = percent(chosen.exposed_s / chosen.iteration_s)
        idle = f"Ranks idle up to {duration(chosen.exposed_s)}, {share} of the iteration, for communication"
        return f"{idle}; {late}" if late else idle
    if late:
        return late[0].upper() + late[1:]
    return f"All {run.num_gpus} ranks compute for almost all of {duration(chosen.length_s)}: communication is hidden"


def _stages_title(part: str, chosen: Selection) -> str:
    """State how long the parts of a model replica wait for one another, and for communication if that is visible."""
    share = percent(chosen.bubble_s / chosen.iteration_s)
    title = f"{part.capitalize()}s wait for one another up to {duration(chosen.bubble_s)}, {share} of the iteration"
    if chosen.exposed_s > 0.01 * chosen.iteration_s:
        return f"{title}, and up to {duration(chosen.exposed_s)} for communication"
    return f"{title}; communication is hidden"


def _stretch_title(run: Run, chosen: Selection) -> str:
    """State what asynchronous workers wait for longest in one of their iterations."""
    idle = {"for communication": chosen.exposed_s, "for others": chosen.waited_s}
    waits = [f"up to {duration(seconds)} {why}" for why, seconds in idle.items() if seconds > 0.01 * chosen.iteration_s]
    whole = f"an iteration of {duration(chosen.iteration_s)}"
    if not waits:
        return f"All {run.num_gpus} ranks compute for almost all of {whole}, asynchronously"
    return f"Asynchronous ranks wait {' and '.join(waits)} in {whole}"


def draw_timeline(data: TimelineData) -> Figure:
    """Draw one bar per mark: the upper bar of a lane is the rank's compute, the thin lower one its communication."""
    unit, factor = time_unit(data.length_s)
    place = {lane.rank: number for number, lane in enumerate(data.lanes)}
    kinds = [kind for kind in _ORDER if any(mark.kind == kind for mark in data.marks)]
    traces = [_trace(kind, [mark for mark in data.marks if mark.kind == kind], place, factor, data) for kind in kinds]
    last = len(data.lanes)
    height = 120 + _LANE_PX * last
    drawn = layout(
        height,
        barmode="overlay",
        shapes=[_stripe(number) for number, lane in enumerate(data.lanes) if lane.last],
        xaxis=axis(
            f"time ({unit})" if data.iteration is None else f"time in iteration {data.iteration} ({unit})",
            range=[0, 1.01 * data.length_s / factor],
        ),
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
        "height": height + _LEGEND_PX * len(kinds),
        "legend": {"maxheight": 1.0},
    }
    few = [_with_few_numbers(trace, data.length_s / factor) for trace in traces] if data.has_micro_batches else None
    return Figure(
        data.title,
        _subtitle(data, unit),
        traces, drawn, narrow, label=data.run, note=data.note, narrow_traces=few,
    )  # fmt: skip


def _subtitle(data: TimelineData, unit: str) -> str:
    what = "One iteration" if data.in_lockstep else "A few iterations of each worker"
    words = [f"{what} over time ({unit}): {data.run}."]
    if any(mark.kind in COMMUNICATION for mark in data.marks):
        words.append("Thick bars: activity of the GPU; thin bars: its buckets in flight.")
    numbers = [_micro_batch(mark, data) for mark in data.marks]
    if any(numbers):
        before = "; negative ones are of previous iterations" if any(each.startswith("-") for each in numbers) else ""
        words.append(f"Numbers: micro-batches{before}.")
    if data.begins_apart:
        words.append("Each lane begins where the previous iteration of its rank ended.")
    if any(lane.last for lane in data.lanes):
        words.append("The awaited rank is shaded.")
    return " ".join(words)


def _trace(kind: str, marks: list[Mark], place: dict[int, int], factor: float, data: TimelineData) -> Json:
    thin = kind in COMMUNICATION
    names = {lane.rank: ", ".join(filter(None, (lane.place, lane.name))) for lane in data.lanes}
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
        **_numbers(kind, marks, data),
        "marker": {
            "color": PARTS[kind],
            **(
                {"pattern": {"shape": KIND_PATTERNS[kind], "fgcolor": "@surface", **_HATCHING}}
                if kind in KIND_PATTERNS
                else {}
            ),
            "line": {"color": "@surface", "width": [_edge(mark, data) for mark in marks]},
        },
    }


def _numbers(kind: str, marks: list[Mark], data: TimelineData) -> Json:
    """Return the micro-batch numbers of bars that are wide enough for them."""
    text = [_micro_batch(mark, data) for mark in marks]
    if not any(text):
        return {}
    colour = "@surface" if kind == "weights" else text_on(PARTS[kind])
    font = {"size": 10, "color": colour}
    return {
        "text": text, "textposition": "inside", "insidetextanchor": "middle", "textangle": 0, "textfont": font,
        "constraintext": "none", "cliponaxis": True,
    }  # fmt: skip


def _with_few_numbers(trace: Json, length: float) -> Json:
    """Return a trace with only the numbers that fit on a narrow screen, which is `length` wide."""
    if "text" not in trace:
        return trace
    wide = (size >= _LEAST_TEXT_NARROW * length for size in trace["x"])
    return {**trace, "text": [text if fits else "" for text, fits in zip(trace["text"], wide, strict=True)]}


def _micro_batch(mark: Mark, data: TimelineData) -> str:
    """Return the number of a bar's micro-batch if there are several and the bar is wide enough, else an empty text."""
    if not data.has_micro_batches:
        return ""
    if mark.kind not in _COMPUTED or mark.end_s - mark.start_s < _LEAST_TEXT * data.length_s:
        return ""
    return mark.name.partition(MICRO_BATCH)[2]


def _edge(mark: Mark, data: TimelineData) -> float:
    """Return the width of the line around a bar: 0 where the bar itself is hardly wider."""
    return 0.5 if mark.end_s - mark.start_s > data.length_s / 150 else 0.0


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _hover(mark: Mark, name: str) -> str:
    rank = f"rank {mark.rank} ({plot_text(name)})" if name else f"rank {mark.rank}"
    label = " ".join(filter(None, (LABELS[mark.kind], plot_text(mark.name))))
    words = [f"<b>{rank}</b>", f"{label}: {duration(mark.end_s - mark.start_s)}"]
    return "<br>".join([*words, plot_text(mark.cause)] if mark.cause else words)


def _label(lane: TimelineLane, long: bool) -> str:
    name = lane.place or plot_text(lane.name)
    text = f"{lane.rank} · {name}" if long and name else str(lane.rank)
    return f"<b>{'awaited ▸ ' if long else '▸ '}{text}</b>" if lane.last else text


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
