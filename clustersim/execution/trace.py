"""What the watched ranks of a executor did in their latest iteration, as spans of a timeline."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from clustersim.execution.job import ENDLESS
from clustersim.results import Spans

_ROUNDING = 1e-9  # share of what comes again
_BESIDE = ("copy", "host")  # what goes on beside what a GPU does


class TraceEntry(NamedTuple):
    """A kind of time, its beginning and its end in seconds, a name and a cause, and of which micro-batch it is."""

    kind: str
    start_s: float
    end_s: float
    name: str
    cause: str
    micro_batch: int

    def later(self, seconds: float, micro_batches: int) -> TraceEntry:
        """Return the same thing of a later micro-batch; what is of the whole iteration has number 0, and keeps it."""
        number = self.micro_batch and self.micro_batch + micro_batches
        return self._replace(start_s=self.start_s + seconds, end_s=self.end_s + seconds, micro_batch=number)


class RepeatedEntries(NamedTuple):
    """Rows of a day that came again so many times, each so much later and of so much later a micro-batch."""

    first: int
    end: int
    times: int
    each_s: float
    step: int

    def told(self, day: list[TraceEntry]) -> list[TraceEntry]:
        """Return a day with what has come again, and what followed that as much later.

        What began when another thing ended does so now, to the last digit.
        """
        out = day[: self.end]
        blocks = [day[self.first : self.end]] * self.times
        for number, rows in enumerate([*blocks, day[self.end :]], start=1):
            times = min(number, self.times)
            later = [row.later(times * self.each_s, times * self.step) for row in rows]
            ahead = next((row for row in reversed(out) if row.kind not in _BESIDE), None)
            place = next((place for place, row in enumerate(later) if row.kind not in _BESIDE), None)
            if ahead is not None and place is not None:
                apart_s = abs(later[place].start_s - ahead.end_s)
                if apart_s <= _ROUNDING * self.each_s:
                    later[place] = later[place]._replace(start_s=ahead.end_s)
            out += later
        return out


class TraceRecorder:
    """Entries of the watched ranks: those of an iteration count from its end on, up to the `last_noted` iteration."""

    def __init__(self, watched: Collection[int]):
        self._spans: dict[int, list[TraceEntry]] = {rank: [] for rank in watched}
        self._day: dict[int, list[TraceEntry]] = {}  # of an iteration that has not ended
        self._repeated: dict[int, RepeatedEntries] = {}  # of these days
        self._delay_s: dict[int, float] = {}  # of what comes now, by what was repeated before
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

    def note(self, rank: int, kind: str, start_s: float, end_s: float, name: str, cause: str, micro_batch: int) -> None:
        """Note how long a watched rank did something for a micro-batch, where it took any time."""
        if rank in self._spans and end_s > start_s:
            self._day[rank].append(TraceEntry(kind, start_s, end_s, name, cause, micro_batch))

    def num_rows(self, rank: int) -> int:
        """Return how many entries the day of a rank has by now."""
        return len(self._day[rank])

    def repeat(self, rank: int, repeated: RepeatedEntries) -> None:
        """Let entries of a rank's day come again that many times; those that followed them are as much later."""
        self._repeated[rank] = repeated

    def end(self, rank: int, iteration: int) -> None:
        """End an iteration of a rank."""
        repeated = self._repeated.pop(rank, None)
        if rank not in self._spans:
            return
        if iteration <= self.last_noted:
            delay_s = self._delay_s.get(rank, 0.0)
            day = [row.later(delay_s, 0) for row in self._day[rank]] if delay_s else self._day[rank]
            self._spans[rank] = day if repeated is None else repeated.told(day)
            self.noted[rank] = iteration
        if repeated is not None:
            self._delay_s[rank] = self._delay_s.get(rank, 0.0) + repeated.times * repeated.each_s

    def come_again(self, rank: int, after_s: float, begin_s: float) -> None:
        """Let a day of a watched rank be the one after it, so much later, which it begins before or as soon as that."""
        if rows := self._spans.get(rank):
            first, *others = (row.later(after_s, 0) for row in rows)
            self._spans[rank] = [first._replace(start_s=min(first.start_s, begin_s)), *others]

    def spans(self) -> tuple[Spans, float]:
        """Return what watched ranks did in their latest iteration, from the first beginning on, and when that was."""
        spans = Spans()
        origin_s = min((rows[0].start_s for rows in self._spans.values() if rows), default=0.0)
        for rank in sorted(self._spans):
            for kind, start_s, end_s, name, cause, number in self._spans[rank]:
                told = f"{name}, micro-batch {number}"
                spans.add(kind, rank, 0, start_s - origin_s, end_s - origin_s, told, cause)
        return spans, origin_s
