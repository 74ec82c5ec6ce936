"""Selection of the spans of a timeline: one iteration, few enough marks to read, the ranks that explain it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from clustersim.report.marks import (
    MICRO_BATCH,
    Mark,
    group_short_marks,
    merge_short_marks,
    merge_touching_marks,
    wrap_into_iteration,
)
from clustersim.results import Run

MAX_MARKS = 5000
"""Bars that a browser zooms smoothly; of more, neighbours are merged or ranks left out."""

MAX_RANKS = 16
"""Ranks whose lanes fit a screen."""

MIN_WAITING_SHARE, QUIET_WAITING_SHARE = 0.005, 0.02
"""Shares of the iteration from which on waiting is reported, and below which it says little."""

MIN_BAR_SHARE = 1 / 300
"""Share of the figure's length below which a bar is too narrow to be distinguished from its neighbour."""

Row = tuple[str, int, int, float, float, str, str]
"""A span: kind, rank, iteration, start and end in seconds, name and cause."""

COMMUNICATION = ("communication", "copy", "host-update")
"""Kinds of spans that overlap with compute and have a lane of their own."""


@dataclass(frozen=True)
class Selection:
    """The marks of the ranks that are shown, in rank order, and a note on what is left out.

    `last` is the rank whose gradients are ready last, so that the others wait for it; they are ready `late_s` after
    the median. `waited_s` and `exposed_s` are the maxima over all ranks in one iteration, which takes `iteration_s`;
    `bubble_s` is the longest time that a stage waits for another. Asynchronous workers (not `in_lockstep`) show
    `length_s` with several iterations and have no `last` rank; neither have pipeline stages. Where a model replica is
    `laid_out` over several GPUs, the iteration is the latest one, whatever its number.
    """

    iteration: int
    ranks: list[int]
    marks: list[Mark]
    last: int | None
    late_s: float
    waited_s: float
    exposed_s: float
    bubble_s: float
    length_s: float
    iteration_s: float
    in_lockstep: bool
    laid_out: bool
    note: str


def is_laid_out(run: Run) -> bool:
    """Return whether a model replica uses several GPUs or micro-batches."""
    return any(MICRO_BATCH in name for name in run.spans.name)


def select_marks(run: Run, max_marks: int = MAX_MARKS, max_ranks: int = MAX_RANKS) -> Selection | None:
    """Return the marks of one iteration of a run; None where the run recorded no spans."""
    if not len(run.spans):
        return None
    iteration, by_rank = _iteration(run)
    laid_out = is_laid_out(run)
    in_lockstep = laid_out or not len(run.cycles) or max(run.cycles.iteration) <= iteration
    ready = {rank: _ready_s(marks) for rank, marks in by_rank.items()}
    waited = {rank: _seconds(marks, "waiting") for rank, marks in by_rank.items()}
    exposed = {rank: _seconds(marks, "exposed") for rank, marks in by_rank.items()}
    bubble = {rank: _seconds(marks, "bubble") for rank, marks in by_rank.items()}
    if run.layout.get("tiled"):
        bubble = waited
    has_stages = any(bubble.values())
    each = (
        dict.fromkeys(by_rank, 1) if in_lockstep else {rank: _num_iterations(marks) for rank, marks in by_rank.items()}
    )
    length = max(mark.end_s for marks in by_rank.values() for mark in marks)
    is_late = in_lockstep and not has_stages and max(waited.values()) > MIN_WAITING_SHARE * length
    last = last_rank(ready) if is_late else None
    ranks = _ranks(waited, last, max_ranks)
    marks, notes = _drawn([by_rank[rank] for rank in ranks], MIN_BAR_SHARE * length, max_marks)
    while len(marks) > max_marks and len(ranks) > 2:
        ranks = _ranks(waited, last, len(ranks) // 2)
        marks, notes = _drawn([by_rank[rank] for rank in ranks], MIN_BAR_SHARE * length, max_marks)
    num_ranks = max(run.num_gpus, len(by_rank))
    if len(ranks) < num_ranks:
        is_all = len(ranks) == len(by_rank)
        verb = "is shown: only this one is" if len(ranks) == 1 else "are shown: only these are"
        shown = f"{len(ranks)} of {num_ranks} ranks {verb} recorded."
        notes.insert(0, shown if is_all else _ranks_note(len(ranks), num_ranks, last))
    in_calls_s = run.breakdown_s.get("communication_exposed", 0.0) if laid_out else 0.0
    if in_calls_s > max(exposed.values()) + 0.01 * run.iteration_s:
        notes.insert(
            0, "Compute bars include the collectives of GPUs that split a layer; an --exact run shows them separately."
        )
    if notes:
        notes.append("All spans, for Perfetto: clustersim run … --trace trace.json.gz")
    return Selection(
        iteration=iteration,
        ranks=ranks,
        marks=marks,
        last=last,
        late_s=0.0 if last is None else ready[last] - sorted(ready.values())[len(ready) // 2],
        waited_s=max(waited[rank] / each[rank] for rank in by_rank),
        exposed_s=max(in_calls_s, *(exposed[rank] / each[rank] for rank in by_rank)),
        bubble_s=max(bubble.values()),
        length_s=length,
        iteration_s=length if in_lockstep and not has_stages else run.iteration_s,
        in_lockstep=in_lockstep,
        laid_out=laid_out,
        note=" ".join(notes),
    )


def _drawn(by_rank: list[list[Mark]], least_s: float, max_marks: int) -> tuple[list[Mark], list[str]]:
    """Return the marks of some ranks, too narrow ones merged with their neighbours, and notes on the merging."""
    marks = [mark for own in by_rank for mark in merge_short_marks(group_short_marks(own, least_s), least_s)]
    if len(marks) > max_marks:
        marks = [mark for own in by_rank for mark in merge_touching_marks(group_short_marks(own, least_s))]
        return marks, ["Adjacent spans of one kind are drawn as one bar."]
    if any(mark.num_spans > 1 and MICRO_BATCH in mark.name for mark in marks):
        each = "; each layer's forward is recomputed just before its backward" if _recomputes(marks) else ""
        return marks, [f"Spans too short to see in a pass of a micro-batch are merged into one bar per kind{each}."]
    narrow = any(mark.num_spans > 1 for mark in marks)
    return marks, ["Spans too short to see are merged with their neighbours into one bar."] if narrow else []


def _recomputes(marks: list[Mark]) -> bool:
    return any(mark.kind == "recompute" and mark.num_spans > 1 for mark in marks)


def _num_iterations(marks: list[Mark]) -> int:
    """Return how many forward passes a rank begins."""
    passes = sorted((mark.start_s, mark.kind) for mark in marks if mark.kind in ("forward", "backward"))
    kinds = [kind for _, kind in passes]
    return max(
        1, sum(one == "forward" and before != "forward" for before, one in zip(["", *kinds], kinds, strict=False))
    )


def last_rank(ready_s: dict[int, float]) -> int | None:
    """Return the rank that is ready last; None where all are ready at the same time, to a millionth."""
    latest, earliest = max(ready_s.values()), min(ready_s.values())
    if latest - earliest <= 1e-6 * latest:
        return None
    return max(ready_s, key=lambda rank: ready_s[rank])


def _ready_s(marks: list[Mark]) -> float:
    """Return when a rank has all its gradients: the end of its last backward pass, or of its last span."""
    backward = [mark.end_s for mark in marks if mark.kind == "backward"]
    return max(backward or [mark.end_s for mark in marks])


def _seconds(marks: list[Mark], kind: str) -> float:
    return sum(mark.end_s - mark.start_s for mark in marks if mark.kind == kind)


def times_shown(run: Run) -> tuple[float, float] | None:
    """Return start and end of the spans that a timeline shows, in simulated time; None where there are none."""
    if not len(run.spans):
        return None
    _, rows = _rows(run)
    return min(row[3] for row in rows), max(row[4] for row in rows)


def _rows(run: Run) -> tuple[int, list[Row]]:
    """Return the last iteration that all ranks have, and its spans."""
    spans = run.spans
    ranks: dict[int, set[int]] = defaultdict(set)
    for rank, iteration in zip(spans.rank, spans.iteration, strict=True):
        ranks[iteration].add(rank)
    whole = max(ranks, key=lambda iteration: (len(ranks[iteration]), iteration))
    return whole, [row for row in spans.rows() if row[2] == whole]


def _iteration(run: Run) -> tuple[int, dict[int, list[Mark]]]:
    """Return the last iteration that all ranks have, and its marks by rank, relative to its start."""
    whole, rows = _rows(run)
    start = min(row[3] for row in rows)
    by_rank: dict[int, list[Mark]] = defaultdict(list)
    for kind, rank, _, start_s, end_s, name, cause in rows:
        by_rank[rank].append(Mark(kind, rank, start_s - start, end_s - start, name, cause))
    if run.stashes_weights:
        by_rank = {rank: wrap_into_iteration(marks, run.iteration_s) for rank, marks in by_rank.items()}
    return whole, dict(sorted(by_rank.items()))


def _ranks(waited_s: dict[int, float], last: int | None, limit: int) -> list[int]:
    """Return the ranks to show: the last one, the one that waits longest, and others evenly spaced."""
    ranks = list(waited_s)
    if len(ranks) <= limit:
        return ranks
    wanted = [] if last is None else [last, max(ranks, key=lambda rank: waited_s[rank])]
    spread = [ranks[round(place * (len(ranks) - 1) / (limit - 1))] for place in range(limit)]
    return sorted(list(dict.fromkeys([*wanted, ranks[0], ranks[-1], *spread]))[:limit])


def _ranks_note(num_shown: int, num_ranks: int, last: int | None) -> str:
    why = "the first, the last, and others evenly spaced"
    if last is not None:
        why = f"the one that is awaited, the one that waits longest, {why}"
    return f"{num_shown} of {num_ranks} ranks are shown: {why}."
