"""Records what the watched ranks of a layout did in their latest iteration, as spans of a timeline."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from clustersim.execution.job import ENDLESS
from clustersim.results import Spans

_ROUNDING = 1e-9  # share of a repeated block below which a gap is a rounding error
_BACKGROUND = ("copy", "host")  # kinds of entries that overlap the GPU's own


class TraceEntry(NamedTuple):
    """One span of a rank: its kind, start and end in seconds, name, cause, and the number of its micro-batch."""

    kind: str
    start_s: float
    end_s: float
    name: str
    cause: str
    micro_batch: int

    def shifted(self, seconds: float, micro_batches: int) -> TraceEntry:
        """Return the same span later in time, for a later micro-batch.

        Spans of the whole iteration have micro-batch 0, and keep it.
        """
        number = self.micro_batch and self.micro_batch + micro_batches
        return self._replace(start_s=self.start_s + seconds, end_s=self.end_s + seconds, micro_batch=number)


class RepeatedEntries(NamedTuple):
    """A block of entries, from `first` to before `end`, that is repeated `times` more times.

    Each repetition is `each_s` seconds and `step` micro-batches later than the one before.
    """

    first: int
    end: int
    times: int
    each_s: float
    step: int

    def expand(self, entries: list[TraceEntry]) -> list[TraceEntry]:
        """Return all entries with the repetitions inserted, and the entries after the block shifted accordingly.

        Entries that touched each other still touch exactly, without a gap by rounding.
        """
        out = entries[: self.end]
        blocks = [entries[self.first : self.end]] * self.times
        for number, block in enumerate([*blocks, entries[self.end :]], start=1):
            times = min(number, self.times)
            later = [entry.shifted(times * self.each_s, times * self.step) for entry in block]
            previous = next((entry for entry in reversed(out) if entry.kind not in _BACKGROUND), None)
            place = next((place for place, entry in enumerate(later) if entry.kind not in _BACKGROUND), None)
            if previous is not None and place is not None:
                gap_s = abs(later[place].start_s - previous.end_s)
                if gap_s <= _ROUNDING * self.each_s:
                    later[place] = later[place]._replace(start_s=previous.end_s)
            out += later
        return out


class TraceRecorder:
    """Records the entries of the watched ranks.

    The entries of an iteration replace those of the one before when it ends, up to the iteration `last_iteration`.
    `recorded` is the iteration of each rank whose entries are kept.
    """

    def __init__(self, watched: Collection[int]):
        self._kept: dict[int, list[TraceEntry]] = {rank: [] for rank in watched}
        self._current: dict[int, list[TraceEntry]] = {}  # of the iteration that has not ended
        self._repeated: dict[int, RepeatedEntries] = {}  # of the current iteration
        self._delay_s: dict[int, float] = {}  # sum of the repetitions of earlier iterations, which no clock has seen
        self.last_iteration = ENDLESS
        self.recorded: dict[int, int] = {}

    def watches(self, rank: int) -> bool:
        """Say whether a rank is recorded."""
        return rank in self._kept

    @property
    def watched(self) -> list[int]:
        """The ranks that are recorded."""
        return sorted(self._kept)

    def begin(self, rank: int) -> None:
        """Begin an iteration of a rank."""
        self._current[rank] = []

    def note(self, rank: int, kind: str, start_s: float, end_s: float, name: str, cause: str, micro_batch: int) -> None:
        """Record a span of a rank, if the rank is watched and the span is not empty."""
        if rank in self._kept and end_s > start_s:
            self._current[rank].append(TraceEntry(kind, start_s, end_s, name, cause, micro_batch))

    def num_entries(self, rank: int) -> int:
        """Return the number of entries in the current iteration of a rank so far."""
        return len(self._current[rank])

    def repeat(self, rank: int, repeated: RepeatedEntries) -> None:
        """Repeat a block of the current iteration of a rank when the iteration ends."""
        self._repeated[rank] = repeated

    def end(self, rank: int, iteration: int) -> None:
        """End an iteration of a rank: keep its entries instead of those of the iteration before."""
        repeated = self._repeated.pop(rank, None)
        if rank not in self._kept:
            return
        if iteration <= self.last_iteration:
            delay_s, entries = self._delay_s.get(rank, 0.0), self._current[rank]
            entries = [entry.shifted(delay_s, 0) for entry in entries] if delay_s else entries
            self._kept[rank] = entries if repeated is None else repeated.expand(entries)
            self.recorded[rank] = iteration
        if repeated is not None:
            self._delay_s[rank] = self._delay_s.get(rank, 0.0) + repeated.times * repeated.each_s

    def shift(self, rank: int, seconds: float, begin_s: float) -> None:
        """Turn the kept iteration of a rank into the identical one that follows it, `seconds` later.

        That one begins at `begin_s`, or earlier.
        """
        if entries := self._kept.get(rank):
            first, *others = (entry.shifted(seconds, 0) for entry in entries)
            self._kept[rank] = [first._replace(start_s=min(first.start_s, begin_s)), *others]

    def spans(self) -> tuple[Spans, float]:
        """Return the kept spans, in seconds after the first of them begins, and the time of that beginning."""
        spans = Spans()
        origin_s = min((entries[0].start_s for entries in self._kept.values() if entries), default=0.0)
        for rank in sorted(self._kept):
            for kind, start_s, end_s, name, cause, number in self._kept[rank]:
                label = f"{name}, micro-batch {number}"
                spans.add(kind, rank, 0, start_s - origin_s, end_s - origin_s, label, cause)
        return spans, origin_s
