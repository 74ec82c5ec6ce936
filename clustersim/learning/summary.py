"""The figures of a training over all seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from clustersim.learning.spec import LearningSpec, Target
from clustersim.results.learning import MAX_LOSS, Curve, CurvePoint, LearningRun, SeedRun
from clustersim.results.metrics import confidence_interval

_LEVEL = 0.95


def learning_run(spec: LearningSpec, trained: Sequence[SeedRun], gradients_per_update: float) -> LearningRun:
    """Return the figures of the trainings of all seeds [seeds]; each has the same updates."""
    curves = [each.curve for each in trained]
    reached = [] if spec.target is None else [first_reached(curve, spec.target) for curve in curves]
    known = [point for point in reached if point is not None]
    times_s = [point.seconds for point in known]
    has_all = bool(known) and len(known) == len(curves)
    samples = spec.batch * gradients_per_update
    last = [curve[-1] for curve in curves]
    progress = [_first_times(curve) for curve in curves]
    return LearningRun(
        task=spec.trained.title(),
        seeds=len(curves),
        updates=last[0].updates,
        samples_per_update=samples,
        final_loss=_mean([point.loss for point in last]),
        final_accuracy=_mean_accuracy(last),
        curve=tuple(_mean_point(points) for points in zip(*progress, strict=True)),
        seed_curves=tuple(curves),
        consensus=trained[0].consensus,
        noise=trained[0].noise,
        diverged=sum(point.loss >= MAX_LOSS for point in last),
        target_metric=None if spec.target is None else spec.target.metric,
        target=None if spec.target is None else spec.target.value,
        num_reached=len(known),
        time_to_target_s=_mean(times_s) if has_all else None,
        time_to_target_interval=_interval(times_s) if has_all else None,
        samples_to_target=samples * _mean([point.updates for point in known]) if has_all else None,
        settings=settings_words(spec),
    )


def settings_words(spec: LearningSpec) -> str:
    """Return how a task is trained, in a few words.

    >>> settings_words(LearningSpec(task="digits"))
    'SGD with a rate of 0.1, 16 samples per gradient, 20 epochs'
    """
    optimizer = spec.optimizer
    name = {"sgd": "SGD", "momentum": f"SGD with momentum {optimizer.momentum:g}", "adam": "Adam"}[optimizer.kind]
    scaling = {
        "none": "",
        "linear": " times the gradients in an update",
        "sqrt": " times the square root of the gradients in an update",
    }[optimizer.scaling]
    joined = "and" if optimizer.kind == "momentum" else "with"
    data = {"shared": "", "split": ", samples split over workers", "by-label": ", classes split over workers"}[
        spec.data
    ]
    rate = f"{name} {joined} a rate of {optimizer.rate:g}{scaling}"
    return f"{rate}, {spec.batch} samples per gradient, {spec.epochs:g} epochs{data}"


def first_reached(curve: Curve, target: Target) -> CurvePoint | None:
    """Return the first evaluation that reaches a target; None if none does."""
    return next((point for point in curve if target.is_reached(point.loss, point.accuracy)), None)


def _first_times(curve: Curve) -> Curve:
    """Return a curve without the updates that were made again after a failure."""
    most = [-1, *itertools.accumulate((point.updates for point in curve), max)]
    return tuple(point for point, before in zip(curve, most, strict=False) if point.updates > before)


def _interval(times_s: Sequence[float]) -> tuple[float, float] | None:
    """Return the confidence interval of the mean; None for one time. No time is below 0."""
    ends = confidence_interval(times_s, _LEVEL)
    return None if ends is None else (max(0.0, ends[0]), ends[1])


def _mean_point(points: Sequence[CurvePoint]) -> CurvePoint:
    return CurvePoint(
        _mean([point.seconds for point in points]),
        points[0].updates,
        _mean([point.loss for point in points]),
        _mean_accuracy(points),
    )


def _mean_accuracy(points: Sequence[CurvePoint]) -> float | None:
    known = [point.accuracy for point in points if point.accuracy is not None]
    return _mean(known) if known else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
