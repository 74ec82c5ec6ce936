"""Training where every worker has its own weights: local SGD, gossip, and DiLoCo's outer step."""

from __future__ import annotations

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
        self._outer = Outer(initial, order.outer_number)
        mixing = order.mixing
        self._mixing = None if mixing is None else torch.as_tensor(mixing, dtype=initial.dtype)

    def run(self, recorder: CurveRecorder) -> SeedRun:
        """Train, and return the curve, and the distance of the workers from their mean at each evaluation."""
        events = self._order.events
        consensus = [(0.0, 0.0)]
        recorder.start(self._weights[0])
        for time_s, kind, worker, other in zip(events.time_s, events.kind, events.worker, events.other, strict=True):
            if kind == READ:
                self._read[worker] = self._gradients.mean(self._gradients.draw((worker,)), self._weights[worker])
            elif kind == APPLY:
                self._apply(worker, recorder.num_updates)
                if recorder.updated(time_s, self._num_updates, self._mean, scale=self._updaters[worker].scale):
                    consensus.append((time_s, self._consensus()))
            elif kind == PAIR:
                self._pair([worker, other])
            elif kind == MIX:
                self._mix()
            elif kind == OUTER:
                self._weights.copy_(self._outer.step(self._weights))
        return SeedRun(recorder.curve, tuple(consensus))

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
