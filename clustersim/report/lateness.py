"""Who was last in each iteration, and why: a slow GPU, a slow host, chance, or a late start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.report.lanes import is_laid_out
from clustersim.results import NOBODY, Run

CAUSES = {
    "device": "a GPU that is always slow",
    "host": "its whole host is slow",
    "jitter": "chance, in that iteration",
    "network": "it began late",
}
"""What makes a rank late, in words."""

_FEWEST = 3
"""Iterations from which on what lasts can be told from chance."""

_MOSTLY = 0.25
"""Share of an iteration's waiting that has to be for one rank for it to be the last one of all."""


@dataclass(frozen=True)
class Sheet:
    """Iterations of every worker as tables [num_ranks, num_iterations], NaN where one was not kept.

    `iteration` [num_iterations] are their numbers. `in_step` says that nobody begins one before all have computed
    the one before.
    """

    iteration: np.ndarray
    begin_s: np.ndarray
    computed_s: np.ndarray
    waiting_s: np.ndarray
    awaited_rank: np.ndarray
    in_step: bool


@dataclass(frozen=True)
class Last:
    """The rank that the others waited for longest in one iteration.

    `waited_s` is the sum of their waiting for it; `late_s` says by cause how much later than the median it was ready:
    it sums to the delay. `slower` is by which share of the median it computed longer.
    """

    iteration: int
    rank: int
    waited_s: float
    slower: float
    late_s: dict[str, float]

    @property
    def cause(self) -> str:
        """The cause that explains most of the delay."""
        return max(self.late_s, key=lambda cause: self.late_s[cause])


def sheet(run: Run) -> Sheet | None:
    """Return the iterations of a run as tables; None where none were kept.

    Nor is anybody the last one where a model is laid over several GPUs, whose ranks wait for one another by design.
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
    in_step = not bool(np.isnan(begin_s).any()) and bool(
        np.all(begin_s[:, 1:].min(axis=0) >= computed_s[:, :-1].max(axis=0) - 2e-9)
    )
    return Sheet(numbers, begin_s, computed_s, table("waiting_s"), table("awaited_rank"), in_step)


def slower(found: Sheet) -> np.ndarray:
    """Return by which share of the iteration's median each rank computed longer [num_ranks, num_iterations]."""
    compute_s = found.computed_s - found.begin_s
    share: np.ndarray = compute_s / np.nanmedian(compute_s, axis=0) - 1.0
    return share


def last_ranks(found: Sheet, hosts: Sequence[str] = ()) -> tuple[Last, ...]:
    """Return who was last, for each iteration in which a quarter of the waiting or more was for one rank.

    `hosts` [num_ranks] says where a rank is.
    A rank's own share is its median over the iterations, where that stands out from chance: 2.5 times the spread of
    its iterations over the square root of their number. Of a share and of what deviates from it, what all GPUs of the
    host have in common is the host's. In step, a late start is counted as well; out of step, starts say nothing.
    """
    share = slower(found)
    steady = _steady(share)
    groups = _hosts(hosts, len(share))
    typical_s = np.nanmedian(found.computed_s - found.begin_s, axis=0)
    start_s = np.nanmedian(found.begin_s, axis=0)
    lasts = []
    for column, iteration in enumerate(found.iteration.tolist()):
        rank, waited_s = _most_awaited(found, column)
        if rank == NOBODY or np.isnan(share[rank, column]):
            continue
        mates = groups[rank]
        own, now = float(steady[rank]), float(share[rank, column])
        lasting = _common(steady[mates])
        passing = _common(share[mates, column] - steady[mates])
        began_s = float(found.begin_s[rank, column] - start_s[column]) if found.in_step else 0.0
        relative = {"device": own - lasting, "host": lasting + passing, "jitter": now - own - passing}
        late_s = {cause: part * float(typical_s[column]) for cause, part in relative.items()}
        lasts.append(Last(iteration, rank, waited_s, now, {**late_s, "network": began_s}))
    return tuple(lasts)


def host_names(run: Run) -> list[str]:
    """Return the host of each rank by its GPU's name, `host0/gpu3`; empty where ranks have no names."""
    return [name.rpartition("/")[0] for name in run.rank_names]


def _most_awaited(found: Sheet, column: int) -> tuple[int, float]:
    awaited, waiting_s = found.awaited_rank[:, column], found.waiting_s[:, column]
    somebody = ~np.isnan(awaited) & (awaited != NOBODY)
    if not somebody.any():
        return NOBODY, 0.0
    total_s = np.bincount(awaited[somebody].astype(np.int64), weights=waiting_s[somebody], minlength=len(awaited))
    rank = int(total_s.argmax())
    is_last = total_s[rank] > 0 and total_s[rank] >= _MOSTLY * total_s.sum()
    return (rank, float(total_s[rank])) if is_last else (NOBODY, 0.0)


def _steady(share: np.ndarray) -> np.ndarray:
    """Return the share by which each rank is slower all the time [num_ranks]: 0 where that may be chance."""
    number = (~np.isnan(share)).sum(axis=1)
    enough = number >= _FEWEST
    steady = np.zeros(len(share))
    steady[enough] = np.nanmedian(share[enough], axis=1)
    spread = np.zeros(len(share))
    spread[enough] = 1.4826 * np.nanmedian(np.abs(share[enough] - steady[enough, None]), axis=1)
    chance = 2.5 * spread / np.sqrt(np.maximum(number, 1))
    return np.where(np.abs(steady) > np.maximum(chance, 1e-9), steady, 0.0)


def _common(values: np.ndarray) -> float:
    """Return what several ranks of one host are all slower by: the least of them, 0 where one is not, or is alone."""
    known = values[~np.isnan(values)]
    return max(0.0, float(known.min())) if len(known) > 1 else 0.0


def _hosts(hosts: Sequence[str], num_ranks: int) -> list[np.ndarray]:
    """Return for each rank all ranks of its host; itself alone where there is no more than one host."""
    if len(hosts) < num_ranks or len(set(hosts)) < 2:
        return [np.array([rank]) for rank in range(num_ranks)]
    names = np.asarray(hosts[:num_ranks])
    members = {name: np.flatnonzero(names == name) for name in dict.fromkeys(hosts)}
    return [members[name] for name in names.tolist()]
