"""Trace of a run in columns: times of each worker's iterations, and spans to draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass
class Spans:
    """Time spans of ranks, in columns.

    `kind` is one of forward, backward, update, communication (a bucket in flight, overlapping with compute), copy,
    waiting (for slower ranks), exposed (communication without overlap), input. `name` is the layer or bucket. `cause`
    explains the span as text; it may be empty.
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
        """Add one span of a rank, in seconds of simulated time."""
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


DURATION_COLUMNS = ("bubble_s", "called_waiting_s", "called_s", "offload_s", "slowed_s", "host_s")
"""Columns of a timesheet that are durations, not times."""


@dataclass
class Timesheet:
    """Times of each worker's iterations, in simulated seconds; NaN where an event has not happened.

    [num_ranks, num_iterations]: `begin_s`, `fetched_s` (samples are ready; NaN without an input stage), `forward_s`
    (end of the forward pass), `computed_s` (end of the backward pass), `exchanged_s` (all buckets back), `end_s`
    (updated). [num_ranks, num_iterations, num_buckets]: `ready_s` (the bucket may be exchanged), `enter_s` (enters the
    exchange), `left_s` (leaves it), `back_s` (result is where the worker needs it), `awaited_s` (the last awaited rank
    has entered) and `awaited_rank` (that rank). While an awaited rank has not entered, `awaited_s` is infinite. A
    worker that is ahead of others has more iterations; the rest of a row is NaN.

    In a layout over several workers, idle seconds before `computed_s`, all [num_ranks, num_iterations]: `bubble_s`
    (waiting for another stage's compute), `called_waiting_s` (waiting for others of its group to enter a collective),
    `called_s` (waiting for messages and collectives in flight) and `offload_s` (waiting for the host: copies over PCIe
    and its updates). `slowed_s` [num_ranks, num_iterations] is compute time lost to collectives that occupied
    multiprocessors, and `host_s` time in which the GPU had nothing to run because its host had not issued it yet.
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
    host_s: np.ndarray

    @classmethod
    def blank(cls, num_ranks: int, num_iterations: int, num_buckets: int) -> Timesheet:
        """Return an empty timesheet."""
        flat = [np.full((num_ranks, num_iterations), np.nan) for _ in range(6)]
        deep = [np.full((num_ranks, num_iterations, num_buckets), np.nan) for _ in range(6)]
        lasting = [np.zeros((num_ranks, num_iterations)) for _ in DURATION_COLUMNS]
        return cls(*flat, *deep, *lasting)

    def extend_to(self, iteration: int) -> None:
        """Extend the columns so that they have this iteration."""
        size = self.begin_s.shape[1]
        if iteration < size:
            return
        for column in fields(self):
            old = getattr(self, column.name)
            blank = 0.0 if column.name in DURATION_COLUMNS else np.nan
            more = np.full((old.shape[0], max(iteration + 1 - size, size), *old.shape[2:]), blank)
            setattr(self, column.name, np.concatenate([old, more], axis=1))

    @property
    def num_begun(self) -> int:
        """Number of iterations that the worker furthest ahead has begun."""
        return int(np.flatnonzero(~np.isnan(self.begin_s).all(axis=0))[-1]) + 1

    def delayed(self, at_s: Sequence[float], seconds: Sequence[float]) -> Timesheet:
        """Return the timesheet with delays inserted: all times after `at_s[i]` are `seconds[i]` later, cumulatively."""
        delays_s = np.cumsum([0.0, *seconds])

        def later(name: str) -> np.ndarray:
            column: np.ndarray = getattr(self, name)
            is_time = name.endswith("_s") and name not in DURATION_COLUMNS
            return column + delays_s[np.searchsorted(at_s, column)] if is_time else column

        return Timesheet(*(later(column.name) for column in fields(self)))

    def truncated(self, time_s: float, has_input: bool) -> Timesheet:
        """Return the timesheet with unfinished iterations cut off at a time.

        With `has_input`, a worker without samples was waiting for them.
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
        """Return the timesheet of some iterations."""
        return Timesheet(*(getattr(self, column.name)[:, iterations] for column in fields(self)))

    def with_buckets(self, num_buckets: int) -> Timesheet:
        """Return the timesheet extended to more buckets, which are NaN."""

        def widened(column: np.ndarray) -> np.ndarray:
            if column.ndim == 2:
                return column
            more = np.full((*column.shape[:2], num_buckets - column.shape[2]), np.nan)
            return np.concatenate([column, more], axis=2)

        return Timesheet(*(widened(getattr(self, column.name)) for column in fields(self)))

    def with_iterations(self, num_iterations: int) -> Timesheet:
        """Return the timesheet cut or extended to this number of iterations; new ones are empty."""
        if self.begin_s.shape[1] < num_iterations:
            self.extend_to(num_iterations - 1)
        return self.select(slice(0, num_iterations))

    @classmethod
    def of_ranks(cls, sheets: Sequence[Timesheet], order: np.ndarray) -> Timesheet:
        """Return one timesheet of the ranks of several of one shape; row i is `order[i]` of their concatenation."""
        names = [column.name for column in fields(cls)]
        return cls(*(np.concatenate([getattr(sheet, name) for sheet in sheets])[order] for name in names))

    def repeated(self, num_iterations: int, period_s: float) -> Timesheet:
        """Return the timesheet with its last iteration repeated every `period_s`, up to `num_iterations`."""
        simulated = self.begin_s.shape[1]
        again = np.arange(1, num_iterations - simulated + 1) * period_s

        def extended(name: str) -> np.ndarray:
            column: np.ndarray = getattr(self, name)
            is_time = name.endswith("_s") and name not in DURATION_COLUMNS
            shift = again if is_time else np.zeros_like(again)
            later = column[:, -1:] + (shift[None, :] if column.ndim == 2 else shift[None, :, None])
            return np.concatenate([column, later], axis=1)

        return Timesheet(*(extended(column.name) for column in fields(self)))
