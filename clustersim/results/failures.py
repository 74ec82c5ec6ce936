"""What failures make of a long training: where its time goes, and how often to save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Stretch(NamedTuple):
    """Seconds of a long training in one state: useful (checkpoints included), lost, or restart; and what failed."""

    state: str
    start_s: float
    end_s: float
    what: str = ""


@dataclass(frozen=True)
class FailureTimes:
    """Seconds of a long training with failures, means over replicates.

    `useful_s`, `checkpoint_s`, `lost_s` and `restart_s` sum to its length. The job fails every `mtbf_s` on
    average; a checkpoint takes `write_s` and is written after every `interval_s` of useful time, and a
    restart takes `down_s`. `young_s`, `daly_s` and `best_s` are the intervals that two formulas and the
    simulation call best. `intervals` are rows of (interval_s, total_s simulated, total_s expected where
    failures are exponential); `downtimes` those of the first replicate as rows of (time_s, what failed,
    its number, lost_s, until_s).
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
        """The length of the whole training."""
        return self.useful_s + self.checkpoint_s + self.lost_s + self.restart_s

    @property
    def has_all_downtimes(self) -> bool:
        """Whether the rows of downtimes go on to the end, as far as the mean number of failures can tell."""
        return not self.downtimes or len(self.downtimes) >= 0.5 * self.num_failures

    def stretches(self) -> list[Stretch]:
        """Return the first replicate's states in order of time, up to its end or to the last downtime known."""
        found: list[Stretch] = []
        now_s = apart_s = 0.0
        for time_s, what, number, lost_s, until_s in self.downtimes:
            failed = f"{what} {number}"
            found += [Stretch("useful", now_s, time_s - lost_s), Stretch("lost", time_s - lost_s, time_s, failed)]
            found.append(Stretch("restart", time_s, until_s, failed))
            now_s, apart_s = until_s, apart_s + lost_s + until_s - time_s
        if self.has_all_downtimes:
            found.append(Stretch("useful", now_s, max(now_s, self.useful_s + self.checkpoint_s + apart_s)))
        return [one for one in found if one.end_s > one.start_s]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FailureTimes:
        """Read rows that have become lists."""
        rows = {key: tuple(tuple(row) for row in document.get(key, ())) for key in ("intervals", "downtimes")}
        return cls(**{**document, **rows})
