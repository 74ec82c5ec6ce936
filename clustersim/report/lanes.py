"""Which spans a timeline shows: one iteration, few enough marks to read, the ranks that explain it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from clustersim.report.marks import MICRO_BATCH, Mark, gathered_marks, joined_marks, merged_marks, within_one
from clustersim.results import Run

MAX_MARKS = 5000
"""Bars that a browser zooms without stutter; more are merged, or ranks left out."""

MAX_RANKS = 16
"""Ranks whose lanes fit a screen."""

NOTICED = 0.005
"""Share of the iteration that somebody has to wait before anybody is called late."""

LEAST_SHARE = 1 / 300
"""Share of the picture's length below which a bar is too narrow to tell from its neighbour."""

Row = tuple[str, int, int, float, float, str, str]
"""A span: kind, rank, iteration, start and end in seconds, name and cause."""

COMMUNICATION = ("communication", "copy", "host")
"""Kinds that run beside the compute, in a lane of their own."""


@dataclass(frozen=True)
class Chosen:
    """The marks of the ranks that are shown, in rank order, and what was left out.

    `last` is the rank whose gradients are ready last, so that the others wait for it; `late_s` is how much
    later than the median's. Of all ranks, `waited_s` and `exposed_s` are the longest of one iteration, which takes
    `iteration_s`, and `bubble_s` is the longest that a stage waits for another. Workers out of step show a stretch of
    `length_s` with several iterations, and nobody is last; nor is anybody of several stages. Where a copy of the model
    is `laid_out` over several GPUs, the iteration is the latest, whatever its number.
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
    in_step: bool
    laid_out: bool
    note: str


def is_laid_out(run: Run) -> bool:
    """Say whether a copy of the model lies on several GPUs, or goes through in micro-batches."""
    return any(MICRO_BATCH in name for name in run.spans.name)


def choose(run: Run, max_marks: int = MAX_MARKS, max_ranks: int = MAX_RANKS) -> Chosen | None:
    """Return the marks of one iteration of a run; None where the run recorded no spans."""
    if not len(run.spans):
        return None
    iteration, by_rank = _iteration(run)
    laid_out = is_laid_out(run)
    in_step = laid_out or not len(run.cycles) or max(run.cycles.iteration) <= iteration
    ready = {rank: _ready_s(marks) for rank, marks in by_rank.items()}
    waited = {rank: _seconds(marks, "waiting") for rank, marks in by_rank.items()}
    exposed = {rank: _seconds(marks, "exposed") for rank, marks in by_rank.items()}
    bubble = {rank: _seconds(marks, "bubble") for rank, marks in by_rank.items()}
    if run.layout.get("tiled"):
        bubble = waited
    has_stages = any(bubble.values())
    each = dict.fromkeys(by_rank, 1) if in_step else {rank: _num_iterations(marks) for rank, marks in by_rank.items()}
    length = max(mark.end_s for marks in by_rank.values() for mark in marks)
    is_late = in_step and not has_stages and max(waited.values()) > NOTICED * length
    last = last_rank(ready) if is_late else None
    ranks = _ranks(waited, last, max_ranks)
    marks, notes = _drawn([by_rank[rank] for rank in ranks], LEAST_SHARE * length, max_marks)
    while len(marks) > max_marks and len(ranks) > 2:
        ranks = _ranks(waited, last, len(ranks) // 2)
        marks, notes = _drawn([by_rank[rank] for rank in ranks], LEAST_SHARE * length, max_marks)
    if len(ranks) < len(by_rank):
        notes.insert(0, _left_out(len(ranks), len(by_rank), last))
    in_calls_s = run.breakdown_s.get("communication_exposed", 0.0) if laid_out else 0.0
    if in_calls_s > max(exposed.values()) + 0.01 * run.iteration_s:
        notes.insert(
            0, "Bars have the collectives of GPUs that split a layer in them; an --exact run shows them apart."
        )
    if notes:
        notes.append("All of it, for Perfetto: clustersim run … --trace trace.json.gz")
    return Chosen(
        iteration=iteration,
        ranks=ranks,
        marks=marks,
        last=last,
        late_s=0.0 if last is None else ready[last] - sorted(ready.values())[len(ready) // 2],
        waited_s=max(waited[rank] / each[rank] for rank in by_rank),
        exposed_s=max(in_calls_s, *(exposed[rank] / each[rank] for rank in by_rank)),
        bubble_s=max(bubble.values()),
        length_s=length,
        iteration_s=length if in_step and not has_stages else run.iteration_s,
        in_step=in_step,
        laid_out=laid_out,
        note=" ".join(notes),
    )


def _drawn(by_rank: list[list[Mark]], least_s: float, max_marks: int) -> tuple[list[Mark], list[str]]:
    """Return the marks of some ranks, those too narrow to see joined with neighbours, and what to say of it."""
    marks = [mark for own in by_rank for mark in joined_marks(gathered_marks(own, least_s), least_s)]
    if len(marks) > max_marks:
        marks = [mark for own in by_rank for mark in merged_marks(gathered_marks(own, least_s))]
        return marks, ["Neighbouring spans of one kind are drawn as one bar."]
    if any(mark.num_spans > 1 and MICRO_BATCH in mark.name for mark in marks):
        return marks, ["What is too short to see in a pass of a micro-batch is drawn together, one bar a kind."]
    narrow = any(mark.num_spans > 1 for mark in marks)
    return marks, ["Spans too short to see are drawn as one bar with their neighbours."] if narrow else []


def _num_iterations(marks: list[Mark]) -> int:
    """Return how often a rank begins with the forward pass anew."""
    passes = sorted((mark.start_s, mark.kind) for mark in marks if mark.kind in ("forward", "backward"))
    kinds = [kind for _, kind in passes]
    return max(
        1, sum(one == "forward" and before != "forward" for before, one in zip(["", *kinds], kinds, strict=False))
    )


def last_rank(ready_s: dict[int, float]) -> int | None:
    """Return the rank that is ready last; None where all are ready together, to a millionth."""
    latest, earliest = max(ready_s.values()), min(ready_s.values())
    if latest - earliest <= 1e-6 * latest:
        return None
    return max(ready_s, key=lambda rank: ready_s[rank])


def _ready_s(marks: list[Mark]) -> float:
    """Return when a rank has all its gradients: the end of its last backward, or of its work where it has none."""
    backward = [mark.end_s for mark in marks if mark.kind == "backward"]
    return max(backward or [mark.end_s for mark in marks])


def _seconds(marks: list[Mark], kind: str) -> float:
    return sum(mark.end_s - mark.start_s for mark in marks if mark.kind == kind)


def times_shown(run: Run) -> tuple[float, float] | None:
    """Return from when to when a timeline shows a run's spans, on their own clock; None where there are none."""
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
    """Return the last iteration that all ranks have, and its marks by rank from its start on."""
    whole, rows = _rows(run)
    start = min(row[3] for row in rows)
    by_rank: dict[int, list[Mark]] = defaultdict(list)
    for kind, rank, _, start_s, end_s, name, cause in rows:
        by_rank[rank].append(Mark(kind, rank, start_s - start, end_s - start, name, cause))
    if run.stashes_weights:
        by_rank = {rank: within_one(marks, run.iteration_s) for rank, marks in by_rank.items()}
    return whole, dict(sorted(by_rank.items()))


def _ranks(waited_s: dict[int, float], last: int | None, limit: int) -> list[int]:
    """Return the ranks to show: the last one, the one that waits longest, and others evenly over the numbers."""
    ranks = list(waited_s)
    if len(ranks) <= limit:
        return ranks
    wanted = [] if last is None else [last, max(ranks, key=lambda rank: waited_s[rank])]
    spread = [ranks[round(place * (len(ranks) - 1) / (limit - 1))] for place in range(limit)]
    return sorted(list(dict.fromkeys([*wanted, ranks[0], ranks[-1], *spread]))[:limit])


def _left_out(num_shown: int, num_ranks: int, last: int | None) -> str:
    why = "the first, the last and others evenly between"
    if last is not None:
        why = f"the one that the others wait for, the one that waits longest, {why}"
    return f"{num_shown} of {num_ranks} ranks are shown: {why}."
