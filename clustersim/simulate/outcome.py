"""What one replicate gave: what its workers noted down, and how much of it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clustersim.results import EVERYBODY, JobRun, Timesheet, Update, UpdateLog, parts
from clustersim.strategies import Job, Window


@dataclass(frozen=True)
class Outcome:
    """One replicate; `in_step` says whether iteration i of one worker is iteration i of all.

    `weights` [num_ranks, num_iterations] say how much each iteration counts. `link_bytes` [num_links] are what an
    iteration sends, on average. `updates` are the rows of the update log that count. `recovery_share` is how many
    seconds of recovery from failures each second of an iteration costs in the long run, where there are failures.
    `jobs` are the figures of all jobs, where several share the cluster.
    """

    times: Timesheet
    weights: np.ndarray
    gpus: np.ndarray
    link_bytes: np.ndarray
    updates: UpdateLog
    algorithms: tuple[str, ...]
    pushing: Sequence[int]
    gradients_per_update: int
    in_step: bool
    shortcuts: tuple[str, ...]
    recovery_share: float | None = None
    jobs: tuple[JobRun, ...] = ()

    @property
    def iteration_s(self) -> float:
        """The mean time of one worker's cycle, its share of recovery included."""
        return self._mean(self.times.end_s - self.times.begin_s) * (1 + (self.recovery_share or 0.0))

    @property
    def applied_share(self) -> float:
        """Which share of the gradients' bytes came in time to be applied."""
        return self._mean(np.nan_to_num(self.times.applied_share, nan=1.0))

    @property
    def update_s(self) -> float:
        """The mean time between two updates of the model.

        So many workers push in a cycle's mean time, and so many gradients that are applied make an update
        (Little, 1961: throughput is the number in the system over the time in it).
        """
        pushing = list(self.pushing)
        cycle_s = np.average(
            np.nan_to_num(self.times.end_s - self.times.begin_s)[pushing], weights=self.weights[pushing]
        )
        gradients = self.gradients_per_update / (len(pushing) * self.applied_share)
        return float(cycle_s) * (1 + (self.recovery_share or 0.0)) * gradients

    @property
    def staleness(self) -> np.ndarray:
        """[num_gradients] staleness of each gradient that was applied and counts."""
        if EVERYBODY in self.updates.worker:
            return np.zeros(int(np.count_nonzero(self.weights)), dtype=np.int64)
        applied: np.ndarray = self.updates.staleness[self.updates.is_accepted]
        return applied

    @property
    def gradients(self) -> tuple[int, int]:
        """How many gradients that count were applied, and how many dropped."""
        if EVERYBODY in self.updates.worker:
            return int(np.count_nonzero(self.weights)), 0
        applied = int(self.updates.is_accepted.sum())
        return applied, len(self.updates) - applied

    def worker_staleness(self) -> tuple[float | None, ...]:
        """Return the mean staleness of each worker's gradients [num_ranks], None for one that has none of its own."""
        if EVERYBODY in self.updates.worker:
            return (0.0,) * len(self.gpus)
        accepted = self.updates.is_accepted
        ranks = np.asarray(self.updates.worker)[accepted]
        counts = np.bincount(ranks, minlength=len(self.gpus))
        sums = np.bincount(ranks, weights=self.updates.staleness[accepted], minlength=len(self.gpus))
        return tuple(float(total / number) if number else None for total, number in zip(sums, counts, strict=True))

    def iterations_s(self) -> tuple[float, ...]:
        """Return the mean over workers of each iteration that counts, by its number."""
        counts = self.weights > 0
        seconds = np.where(counts, self.times.end_s - self.times.begin_s, 0.0).sum(axis=0)
        return tuple((seconds / np.maximum(counts.sum(axis=0), 1))[counts.any(axis=0)].tolist())

    def parts(self) -> dict[str, np.ndarray]:
        """Return where the time of each iteration went [num_ranks, num_iterations], recovery included."""
        split = parts(self.times)
        if self.recovery_share is not None:
            split["recovery"] = (self.times.end_s - self.times.begin_s) * self.recovery_share
        return split

    def worker_parts(self) -> tuple[dict[str, float], ...]:
        """Return the mean parts of each worker's iterations that count [num_ranks]."""
        split = {key: np.where(self.weights > 0, part, 0.0) for key, part in self.parts().items()}
        means = {key: np.average(part, axis=1, weights=self.weights).tolist() for key, part in split.items()}
        return tuple(dict(zip(means, row, strict=True)) for row in zip(*means.values(), strict=True))

    def repeated(self, num_iterations: int, period_s: float, shortcut: str) -> Outcome:
        """Return this outcome with its last iteration come again until there are so many."""
        times = self.times.repeated(num_iterations, period_s)
        return replace(
            self,
            times=times,
            weights=np.ones_like(times.begin_s),
            updates=_in_step(times),
            shortcuts=(*self.shortcuts, shortcut),
        )

    def _mean(self, values: np.ndarray) -> float:
        return float(np.average(np.where(self.weights > 0, values, 0.0), weights=self.weights))


def outcome_of(job: Job) -> Outcome:
    """Return what a job that has ended gave."""
    window, times = job.window, job.times
    if window is None:
        num_played = times.num_begun
        times = times.select(slice(job.num_warm_up, num_played))
        weights, updates = np.ones_like(times.begin_s), _in_step(times)
        link_bytes = job.network.link_bytes / num_played
    else:
        times = times.select(slice(0, times.num_begun))
        weights = window_weights(times, window)
        updates = job.updates.part(window.first_row, window.last_row)
        link_bytes = job.network.link_bytes
    outcome = Outcome(
        times=times,
        weights=weights,
        gpus=job.gpus,
        link_bytes=link_bytes,
        updates=updates,
        algorithms=job.algorithms,
        pushing=job.pushing,
        gradients_per_update=job.gradients_per_update,
        in_step=window is None,
        shortcuts=job.network.shortcuts,
    )
    if window is not None:
        return replace(outcome, link_bytes=link_bytes * (outcome.iteration_s / job.env.now))
    return outcome


def window_weights(times: Timesheet, window: Window) -> np.ndarray:
    """Return 1 for iterations that begin in a window [num_ranks, num_iterations], and 0 for others.

    A rank so slow that it begins none counts with its share of the one that spans the window.
    """
    begin_s, end_s = times.begin_s, times.end_s
    inside = (begin_s >= window.start_s) & (begin_s < window.end_s) & ~np.isnan(end_s)
    weights: np.ndarray = inside.astype(float)
    for rank in np.flatnonzero(~weights.any(axis=1)).tolist():
        spanning = int(np.flatnonzero(begin_s[rank] < window.end_s)[-1])
        length_s = end_s[rank, spanning] - begin_s[rank, spanning]
        weights[rank, spanning] = (window.end_s - window.start_s) / length_s
    return weights


def mean_parts(outcomes: Sequence[Outcome]) -> tuple[Mapping[str, np.ndarray], np.ndarray]:
    """Return the parts of all iterations that count in all outcomes [num_counted], and their weights.

    Every outcome weighs the same.
    """
    counts = [outcome.weights > 0 for outcome in outcomes]
    columns = [outcome.parts() for outcome in outcomes]
    joined = {
        key: np.concatenate([column[key][count] for column, count in zip(columns, counts, strict=True)])
        for key in columns[0]
    }
    weights = [outcome.weights[count] for outcome, count in zip(outcomes, counts, strict=True)]
    return joined, np.concatenate([weight / weight.sum() for weight in weights])


def _in_step(times: Timesheet) -> UpdateLog:
    """Return the update log of workers that march in step: each iteration is one update by all of them."""
    log = UpdateLog()
    for number, time_s in enumerate(times.end_s.max(axis=0).tolist()):
        log.add(Update(time_s, EVERYBODY, number, number + 1, 1.0, True))
    return log
