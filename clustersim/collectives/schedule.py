"""A collective on paper: who sends what to whom, and in which step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clustersim.errors import InputError


class Transfer(NamedTuple):
    """One message. It carries chunks `chunk` to `chunk + num_chunks - 1` of the buffer; where `reduce`, the receiver adds."""

    step: int
    src: int
    dst: int
    num_bytes: float
    chunk: int = 0
    num_chunks: int = 1
    reduce: bool = False


class Step(NamedTuple):
    """All messages of one step, in columns."""

    src: np.ndarray
    dst: np.ndarray
    num_bytes: np.ndarray
    chunk: np.ndarray
    num_chunks: np.ndarray
    reduce: np.ndarray


@dataclass(frozen=True, eq=False)
class Schedule:
    """Steps of messages between ranks 0 to `num_ranks` - 1, each step made when it is asked for.

    No clock, no links and no randomness. `granularity` is how many chunks the buffer is cut into. A
    pattern that repeats is kept as a pattern, so memory grows with the ranks and not with the messages.
    """

    num_ranks: int
    num_steps: int
    step: Callable[[int], Step]
    granularity: int = 1

    @classmethod
    def repeat(
        cls,
        num_steps: int,
        src: np.ndarray,
        dst: np.ndarray,
        num_bytes: float | np.ndarray,
        chunk: Callable[[int], np.ndarray],
        reduce: Callable[[int], bool],
        granularity: int | None = None,
    ) -> Schedule:
        """Make a schedule whose every step has the same senders, receivers and sizes."""
        num_ranks = int(max(src.max(initial=-1), dst.max(initial=-1))) + 1
        sizes = np.broadcast_to(np.asarray(num_bytes, dtype=float), src.shape)
        ones = np.ones(len(src), dtype=np.int64)

        def step(number: int) -> Step:
            return Step(src, dst, sizes, chunk(number), ones, np.full(len(src), reduce(number)))

        return cls(num_ranks, num_steps, step, granularity or num_ranks)

    @classmethod
    def from_steps(cls, num_ranks: int, steps: list[Step], granularity: int = 1) -> Schedule:
        """Make a schedule of steps that are written out."""
        return cls(num_ranks, len(steps), steps.__getitem__, granularity)

    @classmethod
    def from_transfers(
        cls, transfers: Iterable[Transfer | tuple], num_ranks: int | None = None, granularity: int | None = None
    ) -> Schedule:
        """Make a schedule of single messages, in any order.

        >>> Schedule.from_transfers([Transfer(0, 0, 1, 8.0), Transfer(1, 1, 0, 8.0)]).num_steps
        2
        """
        rows = [Transfer(*transfer) for transfer in transfers]
        for row in rows:
            if row.step < 0 or row.src < 0 or row.dst < 0 or not row.num_bytes >= 0:
                raise InputError(f"a transfer's step, ranks and bytes must not be negative (got {row})", got=str(row))
        if num_ranks is None:
            num_ranks = max((max(row.src, row.dst) for row in rows), default=0) + 1
        if granularity is None:
            granularity = max((row.chunk + row.num_chunks for row in rows), default=1)
        by_step: list[list[Transfer]] = [[] for _ in range(max((row.step for row in rows), default=-1) + 1)]
        for row in rows:
            by_step[row.step].append(row)
        return cls.from_steps(num_ranks, [_columns(step) for step in by_step], granularity)

    def transfers(self) -> Iterator[Transfer]:
        """Yield the messages one by one, for reading and for tests."""
        for number in range(self.num_steps):
            columns = self.step(number)
            for src, dst, num_bytes, chunk, num_chunks, reduce in zip(*(column.tolist() for column in columns), strict=True):
                yield Transfer(number, src, dst, num_bytes, chunk, num_chunks, reduce)

    def num_transfers(self) -> int:
        return sum(len(self.step(number).src) for number in range(self.num_steps))


def _columns(rows: list[Transfer]) -> Step:
    return Step(
        np.array([row.src for row in rows], dtype=np.int64),
        np.array([row.dst for row in rows], dtype=np.int64),
        np.array([row.num_bytes for row in rows], dtype=float),
        np.array([row.chunk for row in rows], dtype=np.int64),
        np.array([row.num_chunks for row in rows], dtype=np.int64),
        np.array([row.reduce for row in rows], dtype=bool),
    )
