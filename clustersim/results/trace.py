"""What happened, in columns: spans of time and updates of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Spans:
    """Stretches of one rank's time.

    `kind` is one of forward, backward, update, communication (a bucket in flight, beside the compute),
    copy, waiting (for slower ranks), exposed (communication that nothing hides), input. `name` says
    which layer or bucket; `cause` says in words why, where there is something to say.
    """

    kind: list[str] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    iteration: list[int] = field(default_factory=list)
    start_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    cause: list[str] = field(default_factory=list)

    def add(
        self, kind: str, rank: int, iteration: int, start_s: float, end_s: float, name: str = "", cause: str = ""
    ) -> None:
        for column, value in zip(self._columns(), (kind, rank, iteration, start_s, end_s, name, cause), strict=True):
            column.append(value)

    def _columns(self) -> Iterator[list[Any]]:
        return (getattr(self, column.name) for column in fields(self))

    def rows(self) -> Iterator[tuple[str, int, int, float, float, str, str]]:
        return zip(*self._columns(), strict=True)

    def __len__(self) -> int:
        return len(self.kind)


@dataclass
class Updates:
    """Gradients that were applied: the version each was computed on, and the version it made."""

    time_s: list[float] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    version_read: list[int] = field(default_factory=list)
    version_written: list[int] = field(default_factory=list)

    def add(self, time_s: float, worker: int, version_read: int, version_written: int) -> None:
        self.time_s.append(time_s)
        self.worker.append(worker)
        self.version_read.append(version_read)
        self.version_written.append(version_written)


@dataclass
class Trace:
    """Everything one simulation recorded. Spans are kept for `traced_iterations` only."""

    traced_iterations: frozenset[int]
    spans: Spans = field(default_factory=Spans)
    updates: Updates = field(default_factory=Updates)

    def span(
        self, kind: str, rank: int, iteration: int, start_s: float, end_s: float, name: str = "", cause: str = ""
    ) -> None:
        """Record a span, where its iteration is traced and it lasts at all."""
        if iteration in self.traced_iterations and end_s > start_s:
            self.spans.add(kind, rank, iteration, start_s, end_s, name, cause)
