"""What one replicate gave: what its workers noted down, and how much of it counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clustersim.execution import Job, Window
from clustersim.results import ALL_WORKERS, JobRun, Spans, Timesheet, Update, UpdateLog, parts
from clustersim.simulate.own_updates import come_again


@dataclass(frozen=True)
class Outcome:
    """One replicate; `in_step` says whether iteration i of one worker is iteration i of all.

    `weights` [num_ranks, num_iterations] say how much of each iteration's time counts, `done` [num_ranks,
    num_iterations] how much of it counts as a cycle that a worker has done: less where it is not known when it
    would have ended. `link_bytes` [num_links] are what an iteration sends, on average. `updates` are the rows of the
    update log that count. `recovery_share` is how many seconds of recovery from failures each second of an iteration
    costs in the long run, where there are failures. `jobs` are the figures of all jobs, where several share the
    cluster. `pushed` [num_ranks] is how many workers' gradients each rank hands to the model in one row of the log.
    `spans` are what ranks did in their latest iteration, where they noted that down themselves. An iteration makes
    `updates_per_iteration` of the model, by one gradient each of every rank. All ranks compute as long as the slowest
    GPU that they wait for, `slowest` [num_ranks] times the mean one: the rest of that is waiting.
    """

    times: Timesheet
    weights: np.ndarray
    done: np.ndarray
    gpus: np.ndarray
    link_bytes: np.ndarray
    updates: UpdateLog
    algorithms: tuple[str, ...]
    pushed: np.ndarray
    gradients_per_update: int
    in_step: bool
    shortcuts: tuple[str, ...]
    recovery_share: float | None = None
    jobs: tuple[JobRun, ...] = ()
    spans: Spans | None = None
    updates_per_iteration: int = 1
    slowest: np.ndarray = field(default_factory=lambda: np.ones(1))

    @property
    def iteration_s(self) -> float:
        """The mean time of one worker's cycle, its share of recovery included: the workers' time over their cycles."""
        seconds = self.weights * np.nan_to_num(self.times.end_s - self.times.begin_s)
        return float(seconds.sum() / self.done.sum()) * (1 + (self.recovery_share or 0.0))

    @property
    def applied_share(self) -> float:
        """Which share of the gradients that count came in time to be applied."""
        applied, dropped = self.gradients
        return applied / (applied + dropped)

    @property
    def window_s(self) -> float:
        """How long the workers take for the gradients that count: as many cycles, shared among all."""
        return self.iteration_s * sum(self.gradients) / (len(self.gpus) * self.updates_per_iteration)

    @property
    def update_s(self) -> float:
        """The mean time between two updates of the model, of which each takes as many gradients that are applied."""
        if ALL_WORKERS in self.updates.worker:
            return self.iteration_s
        return self.window_s / (int(self.updates.is_accepted.sum()) / self.gradients_per_update)

    @property
    def measured_s(self) -> float:
        """How long what counts of the run lasts, the mean over workers."""
        seconds = self.weights * np.nan_to_num(self.times.end_s - self.times.begin_s)
        return float(seconds.sum() / len(self.gpus))

    @property
    def staleness(self) -> np.ndarray:
        """[num_gradients] staleness of each gradient that was applied and counts."""
        if ALL_WORKERS in self.updates.worker:
            of_all: np.ndarray = np.repeat(self.updates.staleness, np.count_nonzero(self.weights, axis=0))
            return of_all
        accepted = self.updates.is_accepted
        applied: np.ndarray = np.repeat(self.updates.staleness[accepted], self.pushed[self.updates.worker][accepted])
        return applied

    @property
    def gradients(self) -> tuple[int, int]:
        """How many gradients that count were applied, and how many dropped."""
        if ALL_WORKERS in self.updates.worker:
            return int(np.count_nonzero(self.weights)), 0
        pushed, accepted = self.pushed[self.updates.worker], self.updates.is_accepted
        return int(pushed[accepted].sum()), int(pushed[~accepted].sum())

    def worker_staleness(self) -> tuple[float | None, ...]:
        """Return the mean staleness of each worker's gradients [num_ranks], None for one that has none of its own."""
        if ALL_WORKERS in self.updates.worker:
            return (float(self.updates.staleness.mean()),) * len(self.gpus)
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

    def mean_parts(self) -> dict[str, float]:
        """Return the parts of a mean cycle in seconds; they sum to `iteration_s`."""
        counts, cycles = self.weights > 0, self.done.sum()
        weights = self.weights[counts]
        return {key: float((weights * part[counts]).sum() / cycles) for key, part in self.parts().items()}

    def parts(self) -> dict[str, np.ndarray]:
        """Return where the time of each iteration went [num_ranks, num_iterations], recovery included."""
        split = parts(self.times)
        waited = split["compute"] * np.maximum(0.0, 1 - 1 / self.slowest)[:, None]
        split["compute"], split["waiting"] = split["compute"] - waited, split["waiting"] + waited
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
        if ALL_WORKERS in self.updates.worker:
            updates = _in_step(times, [int(self.updates.staleness[-1])] * times.num_begun)
        else:
            updates = come_again(self.updates, len(self.gpus), self.updates_per_iteration, num_iterations, period_s)
        return replace(
            self,
            times=times,
            weights=np.ones_like(times.begin_s),
            done=np.ones_like(times.begin_s),
            updates=updates,
            shortcuts=(*self.shortcuts, shortcut),
        )


def outcome_of(job: Job, link_bytes: np.ndarray | None = None) -> Outcome:
    """Return what a job that has ended gave; `link_bytes` [num_links] has the network carried, asked for if None."""
    window, times = job.window, job.times
    carried = job.network.link_bytes if link_bytes is None else link_bytes
    if window is None:
        num_played = times.num_begun
        times = times.select(slice(job.num_warm_up, num_played - job.num_after))
        weights = done = np.ones_like(times.begin_s)
        counted = range(job.num_warm_up, num_played - job.num_after)
        updates = _in_step(times, [number - job.gradient_of.get(number, number) for number in counted])
        link_bytes = carried / num_played
    else:
        sheet = times.select(slice(0, times.num_begun))
        times = sheet.truncated(window.end_s, job.input_stage is not None)
        updates = job.updates.part(window.first_row, window.last_row)
        num_cycles = int(job.gradients_per_push[updates.worker].sum())
        weights, done = window_weights(times, window, ~np.isnan(sheet.end_s), num_cycles)
        link_bytes = carried
    outcome = Outcome(
        times=times,
        weights=weights,
        done=done,
        gpus=job.gpus,
        link_bytes=link_bytes,
        updates=updates,
        algorithms=job.algorithms,
        pushed=job.gradients_per_push,
        gradients_per_update=job.gradients_per_update,
        in_step=window is None,
        shortcuts=(*job.shortcuts, *job.network.shortcuts),
        slowest=job.slowest,
    )
    if window is not None:
        return replace(outcome, link_bytes=link_bytes * (outcome.iteration_s / job.env.now))
    return outcome


def window_weights(
    times: Timesheet, window: Window, has_ended: np.ndarray, num_cycles: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return how much of the time of each iteration lies in a window, and how much of each counts as done in it.

    Both [num_ranks, num_iterations], 0 to 1. Of an iteration in progress through the whole window nothing is done if
    it is not in `has_ended`, [num_ranks, num_iterations]. A window that counts gradients has `num_cycles` done, as many
    as met the model in it.
    """
    begin_s, end_s = times.begin_s, times.end_s
    inside_s = np.nan_to_num(np.minimum(end_s, window.end_s) - np.maximum(begin_s, window.start_s))
    length_s = np.where(end_s > begin_s, end_s - begin_s, 1.0)
    weights: np.ndarray = np.maximum(inside_s, 0.0) / length_s
    done = np.where(has_ended, weights, 0.0)
    if window.counts_gradients or not done.any():
        done = weights * (num_cycles / weights.sum())
    return weights, done


def mean_parts(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the parts of a mean cycle of all outcomes in seconds."""
    each = [outcome.mean_parts() for outcome in outcomes]
    return {key: mean_cycle(outcomes, [parts[key] for parts in each]) for key in each[0]}


def mean_cycle(outcomes: Sequence[Outcome], seconds: Sequence[float]) -> float:
    """Return the mean of what a cycle takes in each outcome; each weighs as much as it has gradients that count."""
    counts = np.array([sum(outcome.gradients) for outcome in outcomes])
    return float(np.dot(seconds, counts / counts.sum()))


def _in_step(times: Timesheet, staleness: Sequence[int]) -> UpdateLog:
    """Return the update log of synchronous workers: each iteration is one update by all of them.

    `staleness` [num_iterations] is how many updates the gradient of each has missed.
    """
    log, oldest = UpdateLog(), max(staleness, default=0)
    for number, (time_s, behind) in enumerate(zip(times.end_s.max(axis=0).tolist(), staleness, strict=True), oldest):
        log.add(Update(time_s, ALL_WORKERS, number - behind, number + 1, 1.0, True))
    return log
