"""Training of one model by all workers: every gradient is computed on the version that was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from torch import Tensor

from clustersim.learning.optimizer import LearningOptimizer
from clustersim.learning.order import SharedModelOrder
from clustersim.learning.training.gradients import Draw, Gradients
from clustersim.learning.training.recorder import CurveRecorder
from clustersim.learning.training.update import Updater
from clustersim.results.learning import SeedRun
from clustersim.results.updates import ALL_WORKERS, Update


class SharedModelTraining:
    """A training in the order of an update log. Only versions that a later gradient is computed on are kept."""

    def __init__(self, order: SharedModelOrder, optimizer: LearningOptimizer, initial: Tensor, gradients: Gradients):
        self._order, self._optimizer, self._gradients = order, optimizer, gradients
        self._updater = Updater(initial.clone(), optimizer)
        self._versions: dict[int, Tensor] = {0: initial}
        self._last_read = last_read(order, with_dropped=gradients.keeps_residual)

    def run(self, recorder: CurveRecorder) -> SeedRun:
        """Train, and return the curve."""
        recorder.start(self._updater.weights)
        for version, rows in self._updates():
            gradient, rate = self._gradient(rows)
            if gradient is not None:
                accepted = [row for row in rows if row.accepted]
                num_gradients = sum(len(self._members(row)) for row in accepted)
                factor = self._optimizer.factor(version - 1, recorder.num_updates, num_gradients)
                self._updater.step(gradient, factor * rate)
                if version in self._last_read:
                    self._versions[version] = self._updater.weights.clone()
                recorder.updated(accepted[-1].time_s, version, lambda: self._updater.weights, scale=self._updater.scale)
            self._forget(rows, version)
        return SeedRun(recorder.curve)

    def _updates(self) -> Iterator[tuple[int, list[Update]]]:
        """Yield each version that is written with the rows of its gradients, dropped ones too."""
        for version, rows in groupby(self._order.log.rows(), key=attrgetter("version_written")):
            yield version, list(rows)

    def _gradient(self, rows: Sequence[Update]) -> tuple[Tensor | None, float]:
        """Return the mean of the gradients that are applied, weighted by their rates, and their mean rate.

        The samples of dropped gradients are passed over. The gradient is None if all are dropped. Workers draw samples
        in the order of the rows. Those with the same version and rate are then one batch, unless rows leave a residual.
        """
        draws: dict[tuple[int, float, int], list[Draw]] = {}
        for number, row in enumerate(rows):
            drawn = self._gradients.draw(self._members(row))
            if row.accepted:
                place = number if self._gradients.keeps_residual else 0
                draws.setdefault((row.version_read, row.learning_rate, place), []).extend(drawn)
            elif self._gradients.keeps_residual:
                self._gradients.mean(drawn, self._versions[row.version_read])
        total = sum(len(each) for each in draws.values())
        rates = sum(rate * len(each) for (_, rate, _), each in draws.items())
        gradient: Tensor | None = None
        for (version, rate, _), each in draws.items():
            own = self._gradients.mean(each, self._versions[version])
            if len(draws) > 1:
                own *= rate * len(each) / rates
            gradient = own if gradient is None else gradient.add_(own)
        return gradient, rates / total if total else 0.0

    def _members(self, row: Update) -> Sequence[int]:
        return range(self._order.num_workers) if row.worker == ALL_WORKERS else self._order.members[row.worker]

    def _forget(self, rows: Sequence[Update], version: int) -> None:
        """Drop the versions that no gradient after those of `version` is computed on."""
        for row in rows:
            if self._last_read.get(row.version_read, 0) <= version:
                self._versions.pop(row.version_read, None)


def last_read(order: SharedModelOrder, with_dropped: bool) -> dict[int, int]:
    """Return for each version that is read the version of the last update with a gradient that is computed on it."""
    log = order.log
    rows = zip(log.version_read, log.version_written, log.accepted, strict=True)
    return {read: written for read, written, accepted in rows if accepted or with_dropped}
