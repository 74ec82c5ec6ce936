"""The awaited rank of each iteration, and why it is late: a slow GPU, a slow host, random jitter, or a late start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.report.lanes import is_laid_out
from clustersim.results import NO_RANK, Run

CAUSES = {
    "device": "its GPU is always slow",
    "host": "its whole host is slow",
    "jitter": "random, in that iteration",
    "network": "it began late",
}
"""Causes of a late rank, as texts."""

_MIN_ITERATIONS = 3
"""Iterations needed to distinguish persistent slowness from jitter."""

_MIN_SHARE = 0.25
"""Share of an iteration's waiting that one rank must cause to count as the last rank of all."""


@dataclass(frozen=True)
class IterationTable:
    """Iterations of every worker as tables [num_ranks, num_iterations], NaN where one was not kept.

    `iteration` [num_iterations] are their numbers. `in_lockstep`: no worker begins an iteration before all have
    computed the previous one.
    """

    iteration: np.ndarray
    begin_s: np.ndarray
    computed_s: np.ndarray
    waiting_s: np.ndarray
    awaited_rank: np.ndarray
    in_lockstep: bool


@dataclass(frozen=True)
class LastRank:
    """The rank that the others waited for longest in one iteration.

    `waited_s` is the sum of their waiting for it. `late_s` is its delay against the median rank, split by cause.
    `compute_excess` is its compute time relative to the median, minus 1.
    """

    iteration: int
    rank: int
    waited_s: float
    compute_excess: float
    late_s: dict[str, float]

    @property
    def cause(self) -> str:
        """The cause that explains most of the delay."""
        return max(self.late_s, key=lambda cause: self.late_s[cause])


def iteration_table(run: Run) -> IterationTable | None:
    """Return the iterations of a run as tables; None where none were kept.

    None too where a model replica uses several GPUs: their ranks wait for one another by design.
    """
    cycles = run.cycles
    if not len(cycles) or is_laid_out(run):
        return None
    numbers, column = np.unique(np.asarray(cycles.iteration, dtype=np.int64), return_inverse=True)
    rank = np.asarray(cycles.rank, dtype=np.int64)

    def table(name: str) -> np.ndarray:
        values = np.full((run.num_gpus, len(numbers)), np.nan)
        values[rank, column] = getattr(cycles, name)
        return values

    begin_s, computed_s = table("begin_s"), table("computed_s")
    in_lockstep = not bool(np.isnan(begin_s).any()) and bool(
        np.all(begin_s[:, 1:].min(axis=0) >= computed_s[:, :-1].max(axis=0) - 2e-9)
    )
    return IterationTable(numbers, begin_s, computed_s, table("waiting_s"), table("awaited_rank"), in_lockstep)


def compute_excess(found: IterationTable) -> np.ndarray:
    """Return each rank's compute time over the iteration's median, minus 1 [num_ranks, num_iterations]."""
    compute_s = found.computed_s - found.begin_s
    share: np.ndarray = compute_s / np.nanmedian(compute_s, axis=0) - 1.0
    return share


def find_last_ranks(found: IterationTable, hosts: Sequence[str] = ()) -> tuple[LastRank, ...]:
    """Return the last rank of each iteration in which one rank caused a quarter of the waiting or more.

    `hosts` [num_ranks] are the hosts of the ranks. The persistent excess of a rank is its median over the iterations,
    if that is significant: above 2.5 times the spread of its iterations over the square root of their number. The part
    that all GPUs of a host have in common, of the persistent excess and of the deviation from it, is attributed to the
    host. A late start counts in lockstep only; without, start times have no meaning.
    """
    share = compute_excess(found)
    steady = _steady(share)
    groups = _hosts(hosts, len(share))
    typical_s = np.nanmedian(found.computed_s - found.begin_s, axis=0)
    start_s = np.nanmedian(found.begin_s, axis=0)
    last_ranks = []
    for column, iteration in enumerate(found.iteration.tolist()):
        rank, waited_s = _most_awaited(found, column)
        if rank == NO_RANK or np.isnan(share[rank, column]):
            continue
        same_host = groups[rank]
        own, now = float(steady[rank]), float(share[rank, column])
        lasting = _common(steady[same_host])
        passing = _common(share[same_host, column] - steady[same_host])
        began_s = float(found.begin_s[rank, column] - start_s[column]) if found.in_lockstep else 0.0
        relative = {"device": own - lasting, "host": lasting + passing, "jitter": now - own - passing}
        late_s = {cause: part * float(typical_s[column]) for cause, part in relative.items()}
        last_ranks.append(LastRank(iteration, rank, waited_s, now, {**late_s, "network": began_s}))
    return tuple(last_ranks)


def _most_awaited(found: IterationTable, column: int) -> tuple[int, float]:
    awaited, waiting_s = found.awaited_rank[:, column], found.waiting_s[:, column]
    waited = ~np.isnan(awaited) & (awaited != NO_RANK)
    if not waited.any():
        return NO_RANK, 0.0
    total_s = np.bincount(awaited[waited].astype(np.int64), weights=waiting_s[waited], minlength=len(awaited))
    rank = int(total_s.argmax())
    is_last = total_s[rank] > 0 and total_s[rank] >= _MIN_SHARE * total_s.sum()
    return (rank, float(total_s[rank])) if is_last else (NO_RANK, 0.0)


def _steady(share: np.ndarray) -> np.ndarray:
    """Return the persistent compute excess of each rank [num_ranks]: 0 where it is not significant."""
    number = (~np.isnan(share)).sum(axis=1)
    enough = number >= _MIN_ITERATIONS
    steady = np.zeros(len(share))
    steady[enough] = np.nanmedian(share[enough], axis=1)
    spread = np.zeros(len(share))
    spread[enough] = 1.4826 * np.nanmedian(np.abs(share[enough] - steady[enough, None]), axis=1)
    threshold = 2.5 * spread / np.sqrt(np.maximum(number, 1))
    return np.where(np.abs(steady) > np.maximum(threshold, 1e-9), steady, 0.0)


def _common(values: np.ndarray) -> float:
    """Return the excess that all ranks of a host share: their minimum, at least 0; 0 for a single rank."""
    known = values[~np.isnan(values)]
    return max(0.0, float(known.min())) if len(known) > 1 else 0.0


def _hosts(hosts: Sequence[str], num_ranks: int) -> list[np.ndarray]:
    """Return for each rank all ranks of its host; only itself where there is one host."""
    if len(hosts) < num_ranks or len(set(hosts)) < 2:
        return [np.array([rank]) for rank in range(num_ranks)]
    names = np.asarray(hosts[:num_ranks])
    members = {name: np.flatnonzero(names == name) for name in dict.fromkeys(hosts)}
    return [members[name] for name in names.tolist()]
