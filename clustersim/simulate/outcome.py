"""The outcome of one replicate: the times that its workers recorded, and how much of them counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clustersim.execution import Job, Window
from clustersim.results import ALL_WORKERS, JobRun, Spans, Timesheet, Update, UpdateLog, parts
from clustersim.simulate.pipedream_updates import repeated_updates


@dataclass(frozen=True)
class Outcome:
    """One replicate; `in_step` says whether iteration i of one worker is iteration i of all.

    `weights` [num_ranks, num_iterations] are the share of each iteration's time that counts. `done` [num_ranks,
    num_iterations] is the share of each iteration that counts as completed: less than its weight if its end is not
    known. `link_bytes` [num_links] are the bytes that an iteration sends, on average. `updates` are the rows of the
    update log that count. `recovery_share` is the time of recovery from failures per second of training in the long
    run, if there are failures. `jobs` are the figures of all jobs, if several share the cluster. `pushed` [num_ranks]
    is the number of workers' gradients that each rank sends to the model in one row of the log. `spans` are those of
    the latest iteration, if ranks recorded them. An iteration makes `updates_per_iteration` updates of the model, each
    with one gradient of every rank. All ranks compute as long as the slowest GPU that they wait for, `slowest`
    [num_ranks] times the mean GPU's time: the difference is waiting. `warnings` are sentences about what was measured.
    The busiest server that queues gradients works `server_s` seconds on each.
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
    warnings: tuple[str, ...] = ()
    server_s: float = 0.0

    @property
    def iteration_s(self) -> float:
        """The mean time of a worker's iteration, recovery included: all time that counts over completed iterations."""
        seconds = self.weights * np.nan_to_num(self.times.end_s - self.times.begin_s)
        return float(seconds.sum() / self.done.sum()) * (1 + (self.recovery_share or 0.0))

    @property
    def applied_share(self) -> float:
        """The share of the gradients that count which were applied."""
        applied, dropped = self.gradients
        return applied / (applied + dropped)

    @property
    def window_s(self) -> float:
        """The time that all workers together take for the gradients that count."""
        return self.iteration_s * sum(self.gradients) / (len(self.gpus) * self.updates_per_iteration)

    @property
    def server_busy(self) -> float:
        """The share of the time that counts in which the busiest server works on gradients, 0 to 1."""
        return min(1.0, self.server_s * int(self.updates.is_accepted.sum()) / self.window_s)

    @property
    def update_s(self) -> float:
        """The mean time between two updates of the model; each applies the same number of gradients."""
        if ALL_WORKERS in self.updates.worker:
            return self.iteration_s
        return self.window_s / (int(self.updates.is_accepted.sum()) / self.gradients_per_update)

    @property
    def measured_s(self) -> float:
        """The time of the run that counts, averaged over workers."""
        seconds = self.weights * np.nan_to_num(self.times.end_s - self.times.begin_s)
        return float(seconds.sum() / len(self.gpus))

    @property
    def staleness(self) -> np.ndarray:
        """The staleness of each gradient that was applied and counts [num_gradients]."""
        if ALL_WORKERS in self.updates.worker:
            of_all: np.ndarray = np.repeat(self.updates.staleness, np.count_nonzero(self.weights, axis=0))
            return of_all
        accepted = self.updates.is_accepted
        applied: np.ndarray = np.repeat(self.updates.staleness[accepted], self.pushed[self.updates.worker][accepted])
        return applied

    @property
    def gradients(self) -> tuple[int, int]:
        """How many of the gradients that count were applied, and how many dropped."""
        if ALL_WORKERS in self.updates.worker:
            return int(np.count_nonzero(self.weights)), 0
        pushed, accepted = self.pushed[self.updates.worker], self.updates.is_accepted
        return int(pushed[accepted].sum()), int(pushed[~accepted].sum())

    def worker_staleness(self) -> tuple[float | None, ...]:
        """Return the mean staleness of each worker's gradients [num_ranks]; None for a rank that has no gradients."""
        if ALL_WORKERS in self.updates.worker:
            return (float(self.updates.staleness.mean()),) * len(self.gpus)
        accepted = self.updates.is_accepted
        ranks = np.asarray(self.updates.worker)[accepted]
        counts = np.bincount(ranks, minlength=len(self.gpus))
        sums = np.bincount(ranks, weights=self.updates.staleness[accepted], minlength=len(self.gpus))
        return tuple(float(total / number) if number else None for total, number in zip(sums, counts, strict=True))

    def iterations_s(self) -> tuple[float, ...]:
        """Return the mean time over workers of each iteration that counts [num_iterations]."""
        counts = self.weights > 0
        seconds = np.where(counts, self.times.end_s - self.times.begin_s, 0.0).sum(axis=0)
        return tuple((seconds / np.maximum(counts.sum(axis=0), 1))[counts.any(axis=0)].tolist())

    def mean_parts(self) -> dict[str, float]:
        """Return the parts of the mean iteration in seconds; they sum to `iteration_s`."""
        counts, num_done = self.weights > 0, self.done.sum()
        weights = self.weights[counts]
        return {key: float((weights * part[counts]).sum() / num_done) for key, part in self.parts().items()}

    def parts(self) -> dict[str, np.ndarray]:
        """Return the seconds of each part of each iteration [num_ranks, num_iterations], recovery included."""
        split = parts(self.times)
        waited = split["compute"] * np.maximum(0.0, 1 - 1 / self.slowest)[:, None]
        split["compute"], split["waiting"] = split["compute"] - waited, split["waiting"] + waited
        if self.recovery_share is not None:
            split["recovery"] = (self.times.end_s - self.times.begin_s) * self.recovery_share
        return split

    def worker_parts(self) -> tuple[dict[str, float], ...]:
        """Return the parts of each worker's mean iteration in seconds [num_ranks]."""
        split = {key: np.where(self.weights > 0, part, 0.0) for key, part in self.parts().items()}
        means = {key: np.average(part, axis=1, weights=self.weights).tolist() for key, part in split.items()}
        return tuple(dict(zip(means, row, strict=True)) for row in zip(*means.values(), strict=True))

    def repeated(self, num_iterations: int, period_s: float, shortcut: str) -> Outcome:
        """Return this outcome with its last iteration repeated, `num_iterations` in all."""
        times = self.times.repeated(num_iterations, period_s)
        if ALL_WORKERS in self.updates.worker:
            updates = _synchronous_updates(times, [int(self.updates.staleness[-1])] * times.num_begun)
        else:
            updates = repeated_updates(
                self.updates, len(self.gpus), self.updates_per_iteration, num_iterations, period_s
            )
        return replace(
            self,
            times=times,
            weights=np.ones_like(times.begin_s),
            done=np.ones_like(times.begin_s),
            updates=updates,
            shortcuts=(*self.shortcuts, shortcut),
        )


def outcome_of(job: Job, link_bytes: np.ndarray | None = None) -> Outcome:
    """Return the outcome of a job that has ended; `link_bytes` [num_links] were sent, if None those of its network."""
    window, times = job.window, job.times
    carried = job.network.link_bytes if link_bytes is None else link_bytes
    if window is None:
        num_simulated = times.num_begun
        times = times.select(slice(job.num_warm_up, num_simulated - job.num_after))
        weights = done = np.ones_like(times.begin_s)
        counted = range(job.num_warm_up, num_simulated - job.num_after)
        updates = _synchronous_updates(times, [number - job.gradient_of.get(number, number) for number in counted])
        link_bytes = carried / num_simulated
    else:
        sheet = times.select(slice(0, times.num_begun))
        times = sheet.truncated(window.end_s, job.input_stage is not None)
        updates = job.updates.part(window.first_row, window.last_row)
        num_gradients = int(job.gradients_per_push[updates.worker].sum())
        weights, done = window_weights(times, window, ~np.isnan(sheet.end_s), num_gradients)
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
        warnings=() if window is None else window.warnings(),
        server_s=job.server_s,
    )
    if window is not None:
        return replace(outcome, link_bytes=link_bytes * (outcome.iteration_s / job.env.now))
    return outcome


def window_weights(
    times: Timesheet, window: Window, has_ended: np.ndarray, num_gradients: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of each iteration's time that lies in a window, and the share that counts as completed in it.

    Both are [num_ranks, num_iterations], 0 to 1. An iteration that is not in `has_ended` [num_ranks, num_iterations]
    counts as not completed. A window that counts gradients has `num_gradients` completed iterations: as many as the
    gradients that reached the model in it.
    """
    begin_s, end_s = times.begin_s, times.end_s
    inside_s = np.nan_to_num(np.minimum(end_s, window.end_s) - np.maximum(begin_s, window.start_s))
    length_s = np.where(end_s > begin_s, end_s - begin_s, 1.0)
    weights: np.ndarray = np.maximum(inside_s, 0.0) / length_s
    done = np.where(has_ended, weights, 0.0)
    if window.counts_gradients or not done.any():
        done = weights * (num_gradients / weights.sum())
    return weights, done


def mean_parts(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the parts of the mean iteration of all outcomes in seconds."""
    each = [outcome.mean_parts() for outcome in outcomes]
    return {key: mean_over_outcomes(outcomes, [parts[key] for parts in each]) for key in each[0]}


def mean_over_outcomes(outcomes: Sequence[Outcome], seconds: Sequence[float]) -> float:
    """Return the mean seconds of all outcomes; each has the number of its gradients that count as its weight."""
    counts = np.array([sum(outcome.gradients) for outcome in outcomes])
    return float(np.dot(seconds, counts / counts.sum()))


def _synchronous_updates(times: Timesheet, staleness: Sequence[int]) -> UpdateLog:
    """Return the update log of synchronous workers: each iteration is one update by all of them.

    `staleness` [num_iterations] is how many updates each gradient is behind.
    """
    log, oldest = UpdateLog(), max(staleness, default=0)
    for number, (time_s, behind) in enumerate(zip(times.end_s.max(axis=0).tolist(), staleness, strict=True), oldest):
        log.add(Update(time_s, ALL_WORKERS, number - behind, number + 1, 1.0, True))
    return log
