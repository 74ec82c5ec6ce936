"""Training of one model by all workers: every gradient is computed on the version that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np
from torch import Tensor

from clustersim.learning.order import SharedModelOrder
from clustersim.learning.spec import LearningSpec
from clustersim.learning.tasks import Trainee
from clustersim.learning.training.recorder import Recorder
from clustersim.learning.training.samples import WorkerSamples
from clustersim.learning.training.update import Updater
from clustersim.results.learning import Curve
from clustersim.results.updates import ALL_WORKERS, Update


class SharedModelTraining:
    """A training in the order of an update log."""

    def __init__(self, order: SharedModelOrder, spec: LearningSpec, trainee: Trainee, samples: Sequence[WorkerSamples]):
        self._order, self._spec, self._trainee, self._samples = order, spec, trainee, samples
        self._updater = Updater(trainee.initial, spec.optimizer)
        self._versions: dict[int, Tensor] = {0: trainee.initial}
        self._last_row = last_rows(order)

    def curve(self, on_progress: Callable[[float], None]) -> Curve:
        """Train, and return the curve."""
        log = self._order.log
        num_updates = max(log.version_written, default=0)
        recorder = Recorder(self._trainee, self._spec, num_updates, on_progress)
        recorder.start(self._trainee.initial)
        for version, rows in self._updates():
            accepted = [row for _, row in rows if row.accepted]
            gradient = self._gradient(rows)
            if gradient is not None:
                factor = self._spec.optimizer.factor((version - 1) / num_updates, self._num_gradients(accepted))
                self._updater.step(gradient, factor)
                if version in self._last_row:
                    self._versions[version] = self._updater.weights.clone()
                recorder.updated(accepted[-1].time_s, version, lambda: self._updater.weights)
            self._forget(rows)
        return recorder.curve

    def _updates(self) -> Iterator[tuple[int, list[tuple[int, Update]]]]:
        """Yield each version that is written with the rows of its gradients, dropped ones before them too."""
        numbered = enumerate(self._order.log.rows())
        for version, rows in groupby(numbered, key=lambda each: each[1].version_written):
            yield version, list(rows)

    def _gradient(self, rows: Sequence[tuple[int, Update]]) -> Tensor | None:
        """Return the mean of the gradients that are applied; None if all are dropped, whose samples are passed over."""
        by_version: dict[tuple[int, float], list[np.ndarray]] = {}
        for _, row in rows:
            samples = [self._samples[worker].next() for worker in self._members(row)]
            if row.accepted:
                by_version.setdefault((row.version_read, row.learning_rate), []).extend(samples)
        total = sum(len(samples) for samples in by_version.values())
        gradient: Tensor | None = None
        for (version, rate), samples in by_version.items():
            own = self._trainee.gradient(self._versions[version], np.concatenate(samples))
            own *= rate * len(samples) / total
            gradient = own if gradient is None else gradient.add_(own)
        return gradient

    def _members(self, row: Update) -> Sequence[int]:
        return range(self._order.num_workers) if row.worker == ALL_WORKERS else self._order.members[row.worker]

    def _num_gradients(self, rows: Sequence[Update]) -> int:
        return sum(len(self._members(row)) for row in rows)

    def _forget(self, rows: Sequence[tuple[int, Update]]) -> None:
        """Drop the versions that no later gradient is computed on."""
        for number, row in rows:
            if self._last_row[row.version_read] <= number:
                self._versions.pop(row.version_read, None)


def last_rows(order: SharedModelOrder) -> dict[int, int]:
    """Return the last row of the log in which each version is read."""
    return {version: row for row, version in enumerate(order.log.version_read)}
