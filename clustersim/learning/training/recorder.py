"""Evaluates a model now and then, and keeps the curve."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from clustersim.learning.spec import LearningSpec
from clustersim.learning.tasks import Trainee
from clustersim.learning.training.noise import NoiseMeter, Scale
from clustersim.results.learning import MAX_LOSS, Curve, CurvePoint

_EVALUATIONS = 100


class CurveRecorder:
    """The curve of a training of `num_updates` updates: at the start, every so many updates, and at the end.

    Some evaluations measure the gradient noise scale too, with a meter for its `noise`.
    """

    def __init__(
        self,
        trainee: Trainee,
        spec: LearningSpec,
        num_updates: int,
        on_progress: Callable[[float], None],
        noise: NoiseMeter | None = None,
    ):
        self._noise = noise
        self._trainee, self.num_updates, self._on_progress = trainee, num_updates, on_progress
        self._every = spec.evaluate_every or max(1, num_updates // _EVALUATIONS)
        self._points: list[CurvePoint] = []

    def start(self, weights: Tensor) -> None:
        """Evaluate the weights before the first update."""
        self._evaluate(0.0, 0, weights, lambda: None)

    def is_time(self, updates: int) -> bool:
        """Return whether the weights after so many updates are evaluated."""
        return updates % self._every == 0 or updates == self.num_updates

    def updated(self, time_s: float, updates: int, weights: Callable[[], Tensor], scale: Scale = lambda: None) -> bool:
        """Note that so many updates are made at a time; evaluate the weights if it is time to, and say so.

        `scale` is that of the optimizer, for the gradient noise scale.
        """
        is_time = self.is_time(updates)
        if is_time:
            self._evaluate(time_s, updates, weights(), scale)
        return is_time

    @property
    def curve(self) -> Curve:
        """All evaluations so far."""
        return tuple(self._points)

    def _evaluate(self, time_s: float, updates: int, weights: Tensor, scale: Scale) -> None:
        loss, accuracy = self._trainee.evaluate(weights)
        self._points.append(CurvePoint(time_s, updates, bounded(loss), accuracy))
        if self._noise is not None:
            self._noise.evaluated(updates, weights, scale)
        self._on_progress(updates / self.num_updates)


def bounded(value: float) -> float:
    """Return a figure of a model; MAX_LOSS for one that is larger, infinite or not a number.

    A loss below -MAX_LOSS, of a user's own task, is -MAX_LOSS.
    """
    return MAX_LOSS if math.isnan(value) else max(-MAX_LOSS, min(value, MAX_LOSS))
