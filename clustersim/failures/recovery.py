"""Simulates failures in a training: work since the last checkpoint is lost at each failure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.errors import SimulationError
from clustersim.failures.lifetimes import Failure
from clustersim.units import format_duration

MOST_FAILURES = 200_000
"""Most failures of one training that are simulated."""

_NEVER = Failure(math.inf, "nothing", -1)


class Downtime(NamedTuple):
    """One stop: the failure, the seconds of work and checkpoint that were lost, and the time when work resumed."""

    failure: Failure
    lost_s: float
    until_s: float


@dataclass(frozen=True)
class Recovery:
    """The time of a long training in four parts, which sum to `total_s`.

    `useful_s` is work that was kept, `checkpoint_s` the time to write finished checkpoints, `lost_s` the time
    between the last checkpoint and a failure, `restart_s` the time from each failure until work resumed.
    """

    useful_s: float
    checkpoint_s: float
    lost_s: float
    restart_s: float
    num_checkpoints: int
    num_failures: int
    downtimes: tuple[Downtime, ...]

    @property
    def total_s(self) -> float:
        return self.useful_s + self.checkpoint_s + self.lost_s + self.restart_s


def recover(work_s: float, interval_s: float, write_s: float, down_s: float, failures: Iterable[Failure]) -> Recovery:
    """Return where the time goes in a training of `work_s` seconds with a checkpoint after every `interval_s`.

    Training stops for `write_s` while a checkpoint is written; the last interval has none. After a failure, work
    resumes from the last checkpoint `down_s` later (detection, restart, reading); a failure within `down_s` starts
    it again. The intervals between two failures are one division, so the run time is proportional to the number of
    failures.
    """
    coming = _FailureQueue(failures)
    now_s, saved_s, lost_s, restart_s = 0.0, 0.0, 0.0, 0.0
    num_checkpoints, downtimes = 0, []
    while True:
        available_s = coming.first.time_s - now_s
        left_s = work_s - saved_s
        num_writes = writes_needed(left_s, interval_s)
        if left_s + num_writes * write_s <= available_s:
            break
        kept = min(num_writes, int(available_s // (interval_s + write_s)))
        saved_s += kept * interval_s
        num_checkpoints += kept
        failure, until_s = coming.first, coming.until_restarted(down_s)
        downtimes.append(Downtime(failure, available_s - kept * (interval_s + write_s), until_s))
        lost_s += downtimes[-1].lost_s
        restart_s += until_s - failure.time_s
        now_s = until_s
    num_checkpoints += num_writes
    return Recovery(
        work_s, num_checkpoints * write_s, lost_s, restart_s, num_checkpoints, coming.num_passed, tuple(downtimes)
    )


def writes_needed(work_s: float, interval_s: float) -> int:
    """Return the number of checkpoints in this much work: one after every interval but the last.

    >>> writes_needed(30.0, 10.0), writes_needed(31.0, 10.0), writes_needed(3.0, 10.0)
    (2, 3, 0)
    """
    return max(0, math.ceil(work_s / interval_s * (1 - 1e-12)) - 1)


def never_ends(mtbf_s: float, down_s: float) -> SimulationError:
    """Return the error for a training that never ends because of failures."""
    return SimulationError(
        f"the training does not end: there is a failure every {format_duration(mtbf_s)} on average, and a restart "
        f"takes {format_duration(down_s)} plus the lost work; save more often, restart faster, or give a longer mtbf"
    )


class _FailureQueue:
    """Failures that have not happened yet; `first` is the next one."""

    def __init__(self, failures: Iterable[Failure]):
        self._rest: Iterator[Failure] = iter(failures)
        self.num_passed = 0
        self.first = next(self._rest, _NEVER)

    def until_restarted(self, down_s: float) -> float:
        """Consume the next failure and those while the job is down; return when work resumes."""
        until_s = self.first.time_s
        while self.first.time_s <= until_s:
            until_s = self.first.time_s + down_s
            self.num_passed += 1
            if self.num_passed > MOST_FAILURES:
                raise never_ends(self.first.time_s / self.num_passed, down_s)
            self.first = next(self._rest, _NEVER)
        return until_s
