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

COMMUNICATION = ("communication", "copy")
"""Kinds that run beside the compute, in a lane of their own."""

IDLE = ("waiting", "exposed")
"""Kinds in which the rank itself does nothing."""


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
    """The marks of the ranks that are shown, in rank order, and what was left out."""

    iteration: int
    ranks: list[int]
    num_ranks: int
    marks: list[Mark]
    busy_s: dict[int, float]
    slowest: int | None
    length_s: float
    note: str


def choose(run: Run, max_marks: int = MAX_MARKS, max_ranks: int = MAX_RANKS) -> Chosen | None:
    """Return the marks of one iteration of a run; None where the run recorded no spans."""
    if not len(run.spans):
        return None
    iteration, by_rank = _iteration(run)
    busy = {rank: sum(mark.end_s - mark.start_s for mark in marks if _own(mark)) for rank, marks in by_rank.items()}
    slowest = slowest_rank(busy)
    ranks = _ranks(by_rank, slowest, max_ranks)
    notes = [] if len(ranks) == len(by_rank) else [_left_out(len(ranks), len(by_rank), slowest)]
    marks = [mark for rank in ranks for mark in by_rank[rank]]
    if len(marks) > max_marks:
        marks = [mark for rank in ranks for mark in merged_marks(by_rank[rank])]
        notes.append("Neighbouring spans of one kind are drawn as one bar.")
    if notes:
        notes.append("The whole trace is for Perfetto: clustersim run … --trace trace.json.gz")
    length = max(mark.end_s for mark in marks)
    return Chosen(iteration, ranks, len(by_rank), marks, busy, slowest, length, " ".join(notes))


def slowest_rank(busy_s: dict[int, float]) -> int | None:
    """Return the rank that is busy longest; None where all are equal to a millionth."""
    longest, shortest = max(busy_s.values()), min(busy_s.values())
    if longest - shortest <= 1e-6 * longest:
        return None
    return max(busy_s, key=lambda rank: busy_s[rank])


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


def _own(mark: Mark) -> bool:
    return mark.kind not in IDLE and mark.kind not in COMMUNICATION


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


def _ranks(by_rank: dict[int, list[Mark]], slowest: int | None, limit: int) -> list[int]:
    """Return the ranks to show: the slowest, the one that waits longest, and others evenly over the numbers."""
    ranks = list(by_rank)
    if len(ranks) <= limit:
        return ranks
    idle = {rank: sum(mark.end_s - mark.start_s for mark in by_rank[rank] if mark.kind == "waiting") for rank in ranks}
    wanted = dict.fromkeys([slowest, max(ranks, key=lambda rank: idle[rank])] if slowest is not None else [])
    spread = [ranks[round(place * (len(ranks) - 1) / (limit - 1))] for place in range(limit)]
    for rank in [ranks[0], ranks[-1], *spread]:
        if len(wanted) < limit:
            wanted[rank] = None
    return sorted(rank for rank in wanted if rank is not None)


def _left_out(num_shown: int, num_ranks: int, slowest: int | None) -> str:
    why = "the first, the last and others evenly between"
    if slowest is not None:
        why = f"the slowest, the one that waits longest, {why}"
    return f"{num_shown} of {num_ranks} ranks are shown: {why}."
