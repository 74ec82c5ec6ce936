"""What the watched ranks of a crew did in their latest iteration, as spans of a timeline."""

from __future__ import annotations

from collections.abc import Collection

from clustersim.results import Spans
from clustersim.strategies.job import ENDLESS

Entry = tuple[str, float, float, str, str]
"""A kind of time, its beginning and its end in seconds, a name and a cause."""


class Diary:
    """Entries of the watched ranks: those of an iteration count from its end on, up to the `last_noted` iteration."""

    def __init__(self, watched: Collection[int]):
        self._spans: dict[int, list[Entry]] = {rank: [] for rank in watched}
        self._day: dict[int, list[Entry]] = {}  # of an iteration that has not ended
        self.last_noted = ENDLESS  # the latest iteration that is noted down
        self.noted: dict[int, int] = {}  # the iteration of each rank that is

    def watches(self, rank: int) -> bool:
        """Say whether a rank's time is noted down."""
        return rank in self._spans

    @property
    def watched(self) -> list[int]:
        """The ranks whose time is noted down."""
        return sorted(self._spans)

    def begin(self, rank: int) -> None:
        """Begin an iteration of a rank."""
        self._day[rank] = []

    def note(self, rank: int, kind: str, start_s: float, end_s: float, name: str, cause: str = "") -> None:
        """Note how long a watched rank did something, where it took any time."""
        if rank in self._spans and end_s > start_s:
            self._day[rank].append((kind, start_s, end_s, name, cause))

    def end(self, rank: int, iteration: int) -> None:
        """End an iteration of a rank."""
        if rank in self._spans and iteration <= self.last_noted:
            self._spans[rank], self.noted[rank] = self._day[rank], iteration

    def spans(self) -> tuple[Spans, float]:
        """Return what watched ranks did in their latest iteration, from the first beginning on, and when that was."""
        spans = Spans()
        origin_s = min((rows[0][1] for rows in self._spans.values() if rows), default=0.0)
        for rank in sorted(self._spans):
            for kind, start_s, end_s, name, cause in self._spans[rank]:
                spans.add(kind, rank, 0, start_s - origin_s, end_s - origin_s, name, cause)
        return spans, origin_s
