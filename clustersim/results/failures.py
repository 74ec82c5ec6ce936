"""Failures of a long training: its time breakdown, and the checkpoint interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class StateSpan(NamedTuple):
    """Time span of a long training in one state: useful (checkpoints included), lost, or restart; and what failed."""

    state: str
    start_s: float
    end_s: float
    what: str = ""


@dataclass(frozen=True)
class FailureTimes:
    """Seconds of a long training with failures, means over replicates.

    `useful_s`, `checkpoint_s`, `lost_s` and `restart_s` sum to its total time. The job fails every `mtbf_s` on average.
    A checkpoint takes `write_s` and is written after every `interval_s` of useful time; a restart takes `down_s`.
    `young_s`, `daly_s` and `best_s` are the best intervals by the two formulas and by simulation. `intervals` are rows
    of (interval_s, total_s simulated, total_s expected for exponential failures). `downtimes` are those of the first
    replicate as rows of (time_s, what failed, its number, lost_s, until_s).
    """

    useful_s: float
    checkpoint_s: float
    lost_s: float
    restart_s: float
    num_failures: float
    num_checkpoints: float
    mtbf_s: float
    write_s: float
    down_s: float
    interval_s: float
    young_s: float
    daly_s: float
    best_s: float
    intervals: tuple[tuple[float, float, float | None], ...] = ()
    downtimes: tuple[tuple[float, str, int, float, float], ...] = ()

    @property
    def total_s(self) -> float:
        """Total time of the training."""
        return self.useful_s + self.checkpoint_s + self.lost_s + self.restart_s

    @property
    def has_all_downtimes(self) -> bool:
        """Whether the rows of downtimes reach the end, judged by the mean number of failures."""
        return not self.downtimes or len(self.downtimes) >= 0.5 * self.num_failures

    def states(self) -> list[StateSpan]:
        """Return the states of the first replicate in time order, up to its end or to the last known downtime."""
        found: list[StateSpan] = []
        now_s = overhead_s = 0.0
        for time_s, what, number, lost_s, until_s in self.downtimes:
            failed = f"{what} {number}"
            found += [StateSpan("useful", now_s, time_s - lost_s), StateSpan("lost", time_s - lost_s, time_s, failed)]
            found.append(StateSpan("restart", time_s, until_s, failed))
            now_s, overhead_s = until_s, overhead_s + lost_s + until_s - time_s
        if self.has_all_downtimes:
            found.append(StateSpan("useful", now_s, max(now_s, self.useful_s + self.checkpoint_s + overhead_s)))
        return [one for one in found if one.end_s > one.start_s]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FailureTimes:
        """Return the result of a JSON document, with lists as tuples."""
        rows = {key: tuple(tuple(row) for row in document.get(key, ())) for key in ("intervals", "downtimes")}
        return cls(**{**document, **rows})
