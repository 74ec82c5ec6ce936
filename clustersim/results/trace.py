"""What happened, in columns: when each worker did what, and stretches of time to draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        """Note one stretch of a rank's time, in seconds of the simulated clock."""
        self.kind.append(kind)
        self.rank.append(rank)
        self.iteration.append(iteration)
        self.start_s.append(start_s)
        self.end_s.append(end_s)
        self.name.append(name)
        self.cause.append(cause)

    def _columns(self) -> Iterator[list[Any]]:
        return (getattr(self, column.name) for column in fields(self))

    def rows(self) -> Iterator[tuple[str, int, int, float, float, str, str]]:
        return zip(*self._columns(), strict=True)

    def __len__(self) -> int:
        return len(self.kind)


LASTING = ("bubble_s", "called_waiting_s", "called_s", "offload_s", "slowed_s")
"""Columns of a timesheet that say how long something was, and not when."""


@dataclass
class Timesheet:
    """When each worker did what, in simulated seconds; NaN where nothing has happened.

    [num_ranks, num_iterations]: `begin_s`, `fetched_s` (its samples are there; NaN without an input stage),
    `forward_s` (end of forward), `computed_s` (end of backward), `exchanged_s` (all buckets back), `end_s`
    (updated). [num_ranks, num_iterations, num_buckets]:
    `ready_s` (its turn has come), `enter_s` (in the exchange), `left_s` (out of it), `back_s` (where the
    worker needs it), `awaited_s` (when the last of those it had to wait for was there) and `awaited_rank`
    (who that was); both are there from when it begins to wait for somebody who has not come, the time being infinite.
    A worker that gets ahead of others has more iterations than they; the rest of a row is NaN.

    Where a model is laid over several workers, seconds before `computed_s` in which one did nothing: `bubble_s` (it
    waited for what another stage computes), `called_waiting_s` (for others of its group to enter a collective),
    `called_s` (for messages and collectives on their way) and `offload_s` (for its host: copies over PCIe and what that
    updates); all [num_ranks, num_iterations]. Of what it computes, `slowed_s` [num_ranks, num_iterations] were lost to
    collectives that held multiprocessors.
    """

    begin_s: np.ndarray
    fetched_s: np.ndarray
    forward_s: np.ndarray
    computed_s: np.ndarray
    exchanged_s: np.ndarray
    end_s: np.ndarray
    ready_s: np.ndarray
    enter_s: np.ndarray
    left_s: np.ndarray
    back_s: np.ndarray
    awaited_s: np.ndarray
    awaited_rank: np.ndarray
    bubble_s: np.ndarray
    called_waiting_s: np.ndarray
    called_s: np.ndarray
    offload_s: np.ndarray
    slowed_s: np.ndarray

    @classmethod
    def blank(cls, num_ranks: int, num_iterations: int, num_buckets: int) -> Timesheet:
        """Make a sheet on which nothing is noted yet."""
        flat = [np.full((num_ranks, num_iterations), np.nan) for _ in range(6)]
        deep = [np.full((num_ranks, num_iterations, num_buckets), np.nan) for _ in range(6)]
        lasting = [np.zeros((num_ranks, num_iterations)) for _ in LASTING]
        return cls(*flat, *deep, *lasting)

    def make_room(self, iteration: int) -> None:
        """See to it that this iteration can be noted, of any rank."""
        room = self.begin_s.shape[1]
        if iteration < room:
            return
        for column in fields(self):
            old = getattr(self, column.name)
            blank = 0.0 if column.name in LASTING else np.nan
            more = np.full((old.shape[0], max(iteration + 1 - room, room), *old.shape[2:]), blank)
            setattr(self, column.name, np.concatenate([old, more], axis=1))

    @property
    def num_begun(self) -> int:
        """How many iterations the worker who is farthest ahead has begun."""
        return int(np.flatnonzero(~np.isnan(self.begin_s).all(axis=0))[-1]) + 1

    def put_off(self, at_s: Sequence[float], seconds: Sequence[float]) -> Timesheet:
        """Return this sheet with what came after each of some times so many seconds later, one delay upon the other."""
        delays_s = np.cumsum([0.0, *seconds])

        def later(name: str) -> np.ndarray:
            column: np.ndarray = getattr(self, name)
            is_time = name.endswith("_s") and name not in LASTING
            return column + delays_s[np.searchsorted(at_s, column)] if is_time else column

        return Timesheet(*(later(column.name) for column in fields(self)))

    def cut_off(self, time_s: float, has_input: bool) -> Timesheet:
        """Return this sheet with every iteration that has not ended cut off at a time, as far as it had come then.

        With `has_input`, a worker that had no samples yet was waiting for them.
        """
        times = Timesheet(*(getattr(self, column.name).copy() for column in fields(self)))
        cut = ~np.isnan(times.begin_s) & np.isnan(times.end_s)
        if has_input:
            times.fetched_s[cut] = np.fmin(times.fetched_s[cut], time_s)
        for column in (times.forward_s, times.computed_s, times.exchanged_s, times.end_s):
            column[cut] = np.fmin(column[cut], time_s)
        sent = cut[:, :, None] & ~np.isnan(times.ready_s)
        for column in (times.ready_s, times.enter_s, times.left_s, times.back_s):
            column[sent] = np.fmin(column[sent], time_s)
        awaiting = sent & ~np.isnan(times.awaited_s)
        times.awaited_s[awaiting] = np.fmin(times.awaited_s[awaiting], time_s)
        return times

    def select(self, iterations: slice) -> Timesheet:
        """Return this sheet with some of its iterations only."""
        return Timesheet(*(getattr(self, column.name)[:, iterations] for column in fields(self)))

    def with_buckets(self, num_buckets: int) -> Timesheet:
        """Return this sheet with room for more buckets, of which nothing is noted."""

        def widened(column: np.ndarray) -> np.ndarray:
            if column.ndim == 2:
                return column
            more = np.full((*column.shape[:2], num_buckets - column.shape[2]), np.nan)
            return np.concatenate([column, more], axis=2)

        return Timesheet(*(widened(getattr(self, column.name)) for column in fields(self)))

    def with_iterations(self, num_iterations: int) -> Timesheet:
        """Return this sheet with room for more iterations, of which nothing is noted."""
        if self.begin_s.shape[1] < num_iterations:
            self.make_room(num_iterations - 1)
        return self.select(slice(0, num_iterations))

    @classmethod
    def of_ranks(cls, sheets: Sequence[Timesheet], order: np.ndarray) -> Timesheet:
        """Return one sheet of the ranks of several, which have as many iterations and buckets; row i is `order[i]`."""
        names = [column.name for column in fields(cls)]
        return cls(*(np.concatenate([getattr(sheet, name) for sheet in sheets])[order] for name in names))

    def repeated(self, num_iterations: int, period_s: float) -> Timesheet:
        """Return this sheet with its last iteration come again, every `period_s`, until there are so many."""
        played = self.begin_s.shape[1]
        again = np.arange(1, num_iterations - played + 1) * period_s

        def extended(name: str) -> np.ndarray:
            column: np.ndarray = getattr(self, name)
            is_time = name.endswith("_s") and name not in LASTING
            shift = again if is_time else np.zeros_like(again)
            later = column[:, -1:] + (shift[None, :] if column.ndim == 2 else shift[None, :, None])
            return np.concatenate([column, later], axis=1)

        return Timesheet(*(extended(column.name) for column in fields(self)))
