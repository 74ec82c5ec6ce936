"""Which spans a timeline shows: one iteration, few enough marks to read, the ranks that explain it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from clustersim.report.words import plural
from clustersim.results import Run

MAX_MARKS = 5000
"""Bars that a browser zooms without stutter; more are merged, or ranks left out."""

MAX_RANKS = 16
"""Ranks whose lanes fit a screen."""

NOTICED = 0.005
"""Share of the iteration that somebody has to wait before anybody is called late."""

COMMUNICATION = ("communication", "copy")
"""Kinds that run beside the compute, in a lane of their own."""


@dataclass(frozen=True)
class Mark:
    """One bar: seconds from the start of the iteration; `num_spans` is how many spans it stands for."""

    kind: str
    rank: int
    start_s: float
    end_s: float
    name: str
    cause: str
    num_spans: int = 1


@dataclass(frozen=True)
class Chosen:
    """The marks of the ranks that are shown, in rank order, and what was left out.

    `last` is the rank whose gradients are ready last, so that the others wait for it; `late_s` is how much
    later than the median's. Of all ranks, `waited_s` and `exposed_s` are the longest.
    """

    iteration: int
    ranks: list[int]
    num_ranks: int
    marks: list[Mark]
    last: int | None
    late_s: float
    waited_s: float
    exposed_s: float
    length_s: float
    note: str


def choose(run: Run, max_marks: int = MAX_MARKS, max_ranks: int = MAX_RANKS) -> Chosen | None:
    """Return the marks of one iteration of a run; None where the run recorded no spans."""
    if not len(run.spans):
        return None
    iteration, by_rank = _iteration(run)
    ready = {rank: _ready_s(marks) for rank, marks in by_rank.items()}
    waited = {rank: _seconds(marks, "waiting") for rank, marks in by_rank.items()}
    length = max(mark.end_s for marks in by_rank.values() for mark in marks)
    last = last_rank(ready) if max(waited.values()) > NOTICED * length else None
    ranks = _ranks(waited, last, max_ranks)
    notes = [] if len(ranks) == len(by_rank) else [_left_out(len(ranks), len(by_rank), last)]
    marks = [mark for rank in ranks for mark in by_rank[rank]]
    if len(marks) > max_marks:
        marks = [mark for rank in ranks for mark in merged_marks(by_rank[rank])]
        notes.append("Neighbouring spans of one kind are drawn as one bar.")
    if notes:
        notes.append("All of it, for Perfetto: clustersim run … --trace trace.json.gz")
    return Chosen(
        iteration=iteration,
        ranks=ranks,
        num_ranks=len(by_rank),
        marks=marks,
        last=last,
        late_s=0.0 if last is None else ready[last] - sorted(ready.values())[len(ready) // 2],
        waited_s=max(waited.values()),
        exposed_s=max(_seconds(of_rank, "exposed") for of_rank in by_rank.values()),
        length_s=length,
        note=" ".join(notes),
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


def merged_marks(marks: list[Mark]) -> list[Mark]:
    """Return the marks of one rank with neighbours of one kind that touch made one."""
    merged: dict[str, list[Mark]] = defaultdict(list)
    for mark in sorted(marks, key=lambda mark: mark.start_s):
        before = merged[mark.kind]
        if before and mark.start_s <= before[-1].end_s + 1e-9 * before[-1].end_s:
            last = before[-1]
            joined = last.num_spans + mark.num_spans
            before[-1] = replace(last, end_s=max(last.end_s, mark.end_s), name=plural(joined, "span"), num_spans=joined)
        else:
            before.append(mark)
    return [mark for kind in merged.values() for mark in kind]


def _iteration(run: Run) -> tuple[int, dict[int, list[Mark]]]:
    """Return the last iteration that all ranks have, and its marks by rank from its start on."""
    spans = run.spans
    ranks: dict[int, set[int]] = defaultdict(set)
    for rank, iteration in zip(spans.rank, spans.iteration, strict=True):
        ranks[iteration].add(rank)
    whole = max(ranks, key=lambda iteration: (len(ranks[iteration]), iteration))
    rows = [row for row in spans.rows() if row[2] == whole]
    start = min(row[3] for row in rows)
    by_rank: dict[int, list[Mark]] = defaultdict(list)
    for kind, rank, _, start_s, end_s, name, cause in rows:
        by_rank[rank].append(Mark(kind, rank, start_s - start, end_s - start, name, cause))
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
