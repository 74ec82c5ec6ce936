"""Training where every worker has its own weights: local SGD, gossip, and DiLoCo's outer step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from clustersim.learning.optimizer import LearningOptimizer
from clustersim.learning.order import APPLY, MIX, OUTER, PAIR, READ, ReplicaOrder
from clustersim.learning.training.compression import Compressor
from clustersim.learning.training.gradients import Gradients
from clustersim.learning.training.outer import Outer
from clustersim.learning.training.recorder import CurveRecorder, bounded
from clustersim.learning.training.update import Updater
from clustersim.results.learning import SeedRun


class _Applied(NamedTuple):
    """An update of a worker that is not evaluated yet, with the distance of all workers from their mean after it."""

    time_s: float
    worker: int
    distance: float


class ReplicaTraining:
    """A training in the order of events of workers with their own weights [num_workers, num_weights].

    Every worker keeps the state of its own optimizer when weights are averaged. Gradients stay on their worker: a
    compression changes the weights that are averaged. The mean of all weights moves by the mean of the workers' steps,
    so the rate is scaled as for an update with all their gradients.
    """

    def __init__(
        self,
        order: ReplicaOrder,
        optimizer: LearningOptimizer,
        initial: Tensor,
        gradients: Gradients,
        compressor: Compressor | None = None,
    ):
        self._order, self._optimizer, self._gradients, self._compressor = order, optimizer, gradients, compressor
        self._weights = initial.repeat(order.num_workers, 1)
        self._updaters = [Updater(own, optimizer) for own in self._weights]
        self._read: list[Tensor | None] = [None] * order.num_workers
        self._num_updates = 0
        self._distances = [(0.0, 0.0)]
        self._outer = Outer(initial, order.outer_number)
        mixing = order.mixing
        self._mixing = None if mixing is None else torch.as_tensor(mixing, dtype=initial.dtype)

    def run(self, recorder: CurveRecorder) -> SeedRun:
        """Train, and return the curve, and the distance of the workers from their mean at each evaluated update.

        Weights that are combined at the time of an update are evaluated after it. The distance is that before.
        """
        events = self._order.events
        recorder.start(self._weights[0])
        applied: _Applied | None = None
        for time_s, kind, worker, other in zip(events.time_s, events.kind, events.worker, events.other, strict=True):
            if applied is not None and not (kind in (MIX, OUTER) and time_s == applied.time_s):
                self._evaluate(recorder, applied)
                applied = None
            if kind == READ:
                self._read[worker] = self._gradients.mean(self._gradients.draw((worker,)), self._weights[worker])
            elif kind == APPLY:
                self._apply(worker, recorder.num_updates)
                applied = _Applied(time_s, worker, self._consensus() if recorder.is_time(self._num_updates) else 0.0)
            elif kind == PAIR:
                self._pair([worker, other])
            elif kind == MIX:
                self._mix()
            elif kind == OUTER:
                self._weights.copy_(self._outer.step(self._weights))
        if applied is not None:
            self._evaluate(recorder, applied)
        return SeedRun(recorder.curve, tuple(self._distances))

    def _evaluate(self, recorder: CurveRecorder, applied: _Applied) -> None:
        """Evaluate the weights after an update, and after what all workers did with them at the same time."""
        scale = self._updaters[applied.worker].scale
        if recorder.updated(applied.time_s, self._num_updates, self._mean, scale=scale):
            self._distances.append((applied.time_s, applied.distance))

    def _apply(self, worker: int, num_updates: int) -> None:
        gradient = self._read[worker]
        assert gradient is not None
        factor = self._optimizer.factor(self._num_updates, num_updates, self._order.num_workers)
        self._updaters[worker].step(gradient, factor)
        self._num_updates += 1

    def _pair(self, pair: list[int]) -> None:
        self._weights[pair] = self._sent(pair).mean(0)

    def _mix(self) -> None:
        assert self._mixing is not None
        self._weights.copy_(self._mixing @ self._sent(list(range(len(self._weights)))))

    def _sent(self, workers: list[int]) -> Tensor:
        """Return the weights of some workers as others receive them [len(workers), num_weights]."""
        if self._compressor is None:
            return self._weights[workers]
        return torch.stack([self._compressor.sent_weights(worker, self._weights[worker]) for worker in workers])

    def _mean(self) -> Tensor:
        return self._weights.mean(0)

    def _consensus(self) -> float:
        """Return the root mean square distance of the workers' weights from their mean, over its length."""
        mean = self._mean()
        distance = float((self._weights - mean).square().sum(1).mean().sqrt())
        return bounded(distance / float(mean.norm())) if distance else 0.0
