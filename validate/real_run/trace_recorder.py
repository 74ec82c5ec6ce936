"""Records the spans of a rank, in the columns of `clustersim.results` and on one clock for all ranks."""

from __future__ import annotations

from statistics import median
from typing import Any

from real_run.clock import HostClock, Mark
from real_run.ranks import Ranks

_COLUMNS = ("kind", "rank", "iteration", "start_s", "end_s", "name")


class TraceRecorder:
    """The spans of this rank. `kind` is forward, backward, update, communication (one bucket), copy or exposed."""

    def __init__(self, ranks: Ranks, clock: HostClock):
        self._ranks, self._clock = ranks, clock
        self._rows: list[tuple[str, int, Mark, Mark, str]] = []

    def note(self, kind: str, iteration: int, begin: Mark, end: Mark, name: str = "") -> None:
        """Record a span; iterations below 0 are warm-up and are not kept. It may be called from any thread."""
        if iteration >= 0:
            self._rows.append((kind, iteration, begin, end, name))

    def rows(self) -> list[tuple[str, int, int, float, float, str]]:
        """Return the spans in seconds from the start of the run, to a tenth of a microsecond."""

        def seconds(mark: Mark) -> float:
            return round(self._ranks.common_s(self._clock.seconds(mark)), 7)

        self._clock.settle()
        rank = self._ranks.rank
        return [
            (kind, rank, number, seconds(begin), seconds(end), name) for kind, number, begin, end, name in self._rows
        ]


def as_columns(rows: list[tuple[str, int, int, float, float, str]]) -> dict[str, list[Any]]:
    """Return the spans of all ranks by column, in the order of their start times."""
    ordered = sorted(rows, key=lambda row: (row[3], row[1]))
    return {name: [row[number] for row in ordered] for number, name in enumerate(_COLUMNS)}


def iteration_seconds(rows: list[tuple[str, int, int, float, float, str]]) -> list[float]:
    """Return the seconds of each iteration: from the first start to the last end of a rank, mean over ranks."""
    ends: dict[tuple[int, int], tuple[float, float]] = {}
    for _, rank, number, start_s, end_s, _ in rows:
        first_s, last_s = ends.get((number, rank), (start_s, end_s))
        ends[number, rank] = (min(first_s, start_s), max(last_s, end_s))
    by_iteration: dict[int, list[float]] = {}
    for (number, _), (first_s, last_s) in sorted(ends.items()):
        by_iteration.setdefault(number, []).append(last_s - first_s)
    return [sum(seconds) / len(seconds) for seconds in by_iteration.values()]


def kind_seconds(rows: list[tuple[str, int, int, float, float, str]], kind: str) -> float:
    """Return the median over ranks and iterations of the seconds in spans of a kind; 0 if there are none."""
    spent: dict[tuple[int, int], float] = {}
    for each, rank, number, start_s, end_s, _ in rows:
        if each == kind:
            spent[rank, number] = spent.get((rank, number), 0.0) + end_s - start_s
    return median(spent.values()) if spent else 0.0
