"""What happened, in columns: when each worker did what, and stretches of time to draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


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
class Timesheet:
    """When each worker of a synchronous job did what, in simulated seconds; NaN where nothing has happened.

    [num_ranks, num_iterations]: `begin_s`, `forward_s` (end of forward), `computed_s` (end of backward),
    `exchanged_s` (all buckets back), `end_s` (updated). [num_ranks, num_iterations, num_buckets]:
    `ready_s` (its turn has come), `enter_s` (in the collective), `left_s` (out of it), `back_s` (where
    the worker needs it).
    """

    begin_s: np.ndarray
    forward_s: np.ndarray
    computed_s: np.ndarray
    exchanged_s: np.ndarray
    end_s: np.ndarray
    ready_s: np.ndarray
    enter_s: np.ndarray
    left_s: np.ndarray
    back_s: np.ndarray

    @classmethod
    def blank(cls, num_ranks: int, num_iterations: int, num_buckets: int) -> Timesheet:
        """Make a sheet on which nothing is noted yet."""
        flat = [np.full((num_ranks, num_iterations), np.nan) for _ in range(5)]
        deep = [np.full((num_ranks, num_iterations, num_buckets), np.nan) for _ in range(4)]
        return cls(*flat, *deep)

    def after(self, num_iterations: int) -> Timesheet:
        """Return this sheet without its first iterations."""
        return Timesheet(*(getattr(self, column.name)[:, num_iterations:] for column in fields(self)))

    def repeated(self, num_iterations: int, period_s: float) -> Timesheet:
        """Return this sheet with its last iteration come again, every `period_s`, until there are so many."""
        played = self.begin_s.shape[1]
        again = np.arange(1, num_iterations - played + 1) * period_s

        def extended(column: np.ndarray) -> np.ndarray:
            later = column[:, -1:] + (again[None, :] if column.ndim == 2 else again[None, :, None])
            return np.concatenate([column, later], axis=1)

        return Timesheet(*(extended(getattr(self, column.name)) for column in fields(self)))
