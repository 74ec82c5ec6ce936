"""Evaluates a model now and then, and keeps the curve."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from clustersim.learning.spec import LearningSpec
from clustersim.learning.tasks import Trainee
from clustersim.results.learning import Curve, CurvePoint

_EVALUATIONS = 100


class Recorder:
    """The curve of a training of `num_updates` updates: at the start, every so many updates, and at the end."""

    def __init__(self, trainee: Trainee, spec: LearningSpec, num_updates: int, on_progress: Callable[[float], None]):
        self._trainee, self._num_updates, self._on_progress = trainee, num_updates, on_progress
        self._every = spec.evaluate_every or max(1, num_updates // _EVALUATIONS)
        self._points: list[CurvePoint] = []

    def start(self, weights: Tensor) -> None:
        """Evaluate the weights before the first update."""
        self._evaluate(0.0, 0, weights)

    def updated(self, time_s: float, updates: int, weights: Callable[[], Tensor]) -> None:
        """Note that so many updates are made at a time; evaluate the weights if it is time to."""
        if updates % self._every == 0 or updates == self._num_updates:
            self._evaluate(time_s, updates, weights())

    @property
    def curve(self) -> Curve:
        """All evaluations so far."""
        return tuple(self._points)

    def _evaluate(self, time_s: float, updates: int, weights: Tensor) -> None:
        self._points.append(CurvePoint(time_s, updates, *self._trainee.evaluate(weights)))
        self._on_progress(updates / self._num_updates)
