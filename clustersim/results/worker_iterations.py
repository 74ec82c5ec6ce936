"""Every worker's iterations in columns: for the figures of worker clocks, waiting and stragglers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from clustersim.results.synchronous import parts, waits
from clustersim.results.trace import Timesheet

NO_RANK = -1
"""Value of the awaited rank where a worker did not wait."""

MAX_ITERATIONS = 20_000
"""Iterations kept of a run; of more, the last ones are kept."""


class WorkerIteration(NamedTuple):
    """One iteration of one worker: its start, the end of compute, the end of its exchange, and its end.

    The worker waited `waiting_s` for others, longest for `awaited_rank`.
    """

    rank: int
    iteration: int
    begin_s: float
    computed_s: float
    exchanged_s: float
    end_s: float
    waiting_s: float
    awaited_rank: int


@dataclass(frozen=True)
class WorkerIterations:
    """Columns of `WorkerIteration`, in the order in which the iterations began; seconds to the nanosecond."""

    rank: list[int] = field(default_factory=list)
    iteration: list[int] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    computed_s: list[float] = field(default_factory=list)
    exchanged_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    waiting_s: list[float] = field(default_factory=list)
    awaited_rank: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, times: Timesheet, counts: np.ndarray, limit: int = MAX_ITERATIONS) -> WorkerIterations:
        """Return the last `limit` iterations of a timesheet selected by `counts` [num_ranks, num_iterations]."""
        ranks, iterations = np.nonzero(counts)
        order = np.lexsort((iterations, ranks, times.begin_s[counts]))[-limit:]
        chosen = ranks[order], iterations[order]

        def kept(column: np.ndarray) -> list[float]:
            seconds: list[float] = np.round(column[chosen], 9).tolist()
            return seconds

        return cls(
            rank=chosen[0].tolist(),
            iteration=chosen[1].tolist(),
            begin_s=kept(times.begin_s),
            computed_s=kept(times.computed_s),
            exchanged_s=kept(times.exchanged_s),
            end_s=kept(times.end_s),
            waiting_s=kept(parts(times)["waiting"]),
            awaited_rank=awaited_ranks(times)[chosen].tolist(),
        )

    def rows(self) -> Iterator[WorkerIteration]:
        """Yield the iterations one by one."""
        return map(WorkerIteration._make, zip(*vars(self).values(), strict=True))

    def __len__(self) -> int:
        return len(self.rank)

    def to_dict(self) -> dict[str, Any]:
        """Return the columns as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> WorkerIterations:
        """Return the columns of a JSON document."""
        return cls(**document)


def awaited_ranks(times: Timesheet) -> np.ndarray:
    """Return the rank that each worker waited for longest [num_ranks, num_iterations]; NO_RANK without waiting."""
    longest = np.zeros_like(times.begin_s)
    awaited = np.full(times.begin_s.shape, NO_RANK, dtype=np.int64)
    for bucket, (start, end) in enumerate(waits(times)):
        longer = np.nan_to_num(end - start) > longest
        longest[longer] = (end - start)[longer]
        awaited[longer] = times.awaited_rank[:, :, bucket][longer].astype(np.int64)
    return awaited
