"""Trainings of small models in tests."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from clustersim.kernels.compression import Compression
from clustersim.learning import LearningSpec, Trainee, TrainingOrder
from clustersim.learning.tasks.digits import Digits
from clustersim.learning.training.recorder import CurveRecorder
from clustersim.learning.training.replay import repeatable, training
from clustersim.results.learning import SeedRun

SEED = 7


def spec(
    batch: int = 4, rate: float = 0.05, kind: str = "sgd", evaluate_every: int | None = None, **keys: Any
) -> LearningSpec:
    """Return a training; other `keys` are those of its optimizer. The trainee is another one than its task's."""
    optimizer = {"kind": kind, "rate": rate, **keys}
    return LearningSpec(task="digits", batch=batch, optimizer=optimizer, evaluate_every=evaluate_every)


def digits(hidden: int, seed: int) -> Trainee:
    """Return a perceptron on digits."""
    return Digits(hidden=hidden).trainee(seed)


class Trained:
    """What came of a training, and the weights [num_weights] after each update, evaluated or not."""

    def __init__(
        self, order: TrainingOrder, given: LearningSpec, trainee: Trainee, compression: Compression | None = None
    ):
        self.weights: list[Tensor] = []
        recorder = CurveRecorder(trainee, given, order.num_updates, lambda share: None)
        evaluate = recorder.updated

        def updated(time_s: float, updates: int, weights: Any, **rest: Any) -> bool:
            self.weights.append(weights().clone())
            return evaluate(time_s, updates, weights, **rest)

        recorder.updated = updated  # type: ignore[method-assign]
        with repeatable(SEED):
            self.run: SeedRun = training(order, given, trainee, SEED, compression).run(recorder)

    @property
    def last(self) -> Tensor:
        return self.weights[-1]
