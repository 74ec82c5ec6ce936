"""Training of pipeline stages that update after every micro-batch, each on its own version (PipeDream)."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from clustersim.learning.optimizer import LearningOptimizer
from clustersim.learning.order import StageOrder
from clustersim.learning.tasks import Trainee
from clustersim.learning.training.gradients import Gradients
from clustersim.learning.training.recorder import CurveRecorder
from clustersim.learning.training.update import Updater
from clustersim.results.learning import SeedRun


class StageTraining:
    """A training with stashed weights: a stage uses one version in the forward and backward pass of a micro-batch.

    Source: Narayanan et al., PipeDream: generalized pipeline parallelism for DNN training, 2019.
    """

    def __init__(self, order: StageOrder, optimizer: LearningOptimizer, trainee: Trainee, gradients: Gradients):
        self._order, self._optimizer, self._gradients = order, optimizer, gradients
        starts = trainee.stage_starts(len(order.staleness))
        self._sizes = [end - start for start, end in zip(starts, [*starts[1:], len(trainee.initial)], strict=True)]
        self._updater = Updater(trainee.initial.clone(), optimizer)

    def run(self, recorder: CurveRecorder) -> SeedRun:
        """Train, and return the curve."""
        workers = range(self._order.num_workers)
        versions = deque([self._updater.weights.clone()], maxlen=max(self._order.staleness) + 1)
        recorder.start(self._updater.weights)
        for number, time_s in enumerate(self._order.time_s.tolist()):
            gradient = self._gradients.mean(self._gradients.draw(workers), self._stashed(versions))
            factor = self._optimizer.factor(number, recorder.num_updates, self._order.num_workers)
            self._updater.step(gradient, factor)
            versions.append(self._updater.weights.clone())
            recorder.updated(time_s, number + 1, lambda: self._updater.weights, scale=self._updater.scale)
        return SeedRun(recorder.curve)

    def _stashed(self, versions: deque[Tensor]) -> Tensor:
        """Return the weights on which the next gradient is computed; `versions` are the last ones, newest last."""
        newest = len(versions) - 1
        used = [versions[max(0, newest - staleness)] for staleness in self._order.staleness]
        parts = [whole.split(self._sizes)[stage] for stage, whole in enumerate(used)]
        return torch.cat(parts)
