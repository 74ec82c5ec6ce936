"""Trainings without training: errors that fall exponentially to a floor, for sweeps of any strategies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clustersim.results import Run, Sweep
from clustersim.results.learning import CurvePoint, LearningRun
from clustersim.results.learning_scale import LearningScale
from tests.report.synthetic import make_run, make_sweep

TASK = "a perceptron with 64 hidden units on 1,437 handwritten digits"
BATCH = 16.0


def curve_of(
    tau_s: float,
    floor: float = 0.02,
    end_s: float = 20.0,
    num_points: int = 101,
    updates: int = 1000,
    start: float = 0.9,
) -> tuple[CurvePoint, ...]:
    """Return a curve whose 1 - accuracy is floor + (start - floor) exp(-t / tau); its loss is 2.5 times that."""
    points = []
    for number in range(num_points):
        share = number / (num_points - 1)
        error = floor + (start - floor) * math.exp(-share * end_s / tau_s)
        points.append(CurvePoint(share * end_s, round(share * updates), 2.5 * error, 1.0 - error))
    return tuple(points)


def first(curve: Sequence[CurvePoint], metric: str, target: float) -> CurvePoint | None:
    """Return the first point that reaches a target."""
    if metric == "loss":
        return next((point for point in curve if point.loss <= target), None)
    return next((point for point in curve if point.accuracy is not None and point.accuracy >= target), None)


def training(
    *curves: Sequence[CurvePoint], target: float | None = 0.95, metric: str = "accuracy", **parts: Any
) -> LearningRun:
    """Return the figures of a training with these curves, one for each seed."""
    reached = [] if target is None else [first(curve, metric, target) for curve in curves]
    known = [point for point in reached if point is not None]
    is_known = bool(known) and len(known) == len(curves)
    seconds = [point.seconds for point in known]
    spread = (min(seconds), max(seconds)) if is_known and len(curves) > 1 else None
    last = [curve[-1] for curve in curves]
    accuracies = [point.accuracy for point in last if point.accuracy is not None]
    fields: dict[str, Any] = {
        "task": TASK,
        "seeds": len(curves),
        "updates": last[0].updates,
        "samples_per_update": BATCH,
        "final_loss": _mean([point.loss for point in last]),
        "final_accuracy": _mean(accuracies) if accuracies else None,
        "curve": tuple(_mean_point(points) for points in zip(*curves, strict=True)),
        "seed_curves": tuple(tuple(curve) for curve in curves),
        "target_metric": None if target is None else metric,
        "target": target,
        "num_reached": len(known),
        "time_to_target_s": _mean(seconds) if is_known else None,
        "time_to_target_interval": spread,
        "samples_to_target": BATCH * _mean([point.updates for point in known]) if is_known else None,
        "settings": "SGD with a rate of 0.1, 16 samples per gradient, 20 epochs",
    }
    return LearningRun(**{**fields, **parts})


def trained_sweep(
    trainings: Mapping[Any, LearningRun | None], key: str = "strategy", name: str = "trained", **axes: Any
) -> Sweep:
    """Return a sweep over one axis on 8 GPUs, whose values have these trainings; later values are a bit slower."""
    runs = [_run(number, {key: value, **axes}, learning) for number, (value, learning) in enumerate(trainings.items())]
    return replace(
        make_sweep((1,)), runs=tuple(runs), warnings=(), scenario={"name": name, "model": "resnet50"}, scenario_text=""
    )


def joined(*sweeps: Sweep) -> Sweep:
    """Return the runs of several sweeps as one."""
    return replace(sweeps[0], runs=tuple(run for sweep in sweeps for run in sweep.runs))


def six_strategies() -> Sweep:
    """Return six trainings of three seeds: async leads until accuracy 0.95, all-reduce from there on."""
    rows = {
        "async": (2.0, 0.048, 12.0),
        "softsync": (2.6, 0.047, 13.0),
        "bounded-staleness": (3.4, 0.03, 16.0),
        "backup": (4.5, 0.035, 17.0),
        "gossip": (5.0, 0.06, 18.0),
        "all-reduce": (4.0, 0.02, 20.0),
    }
    found: dict[Any, LearningRun | None] = {}
    for name, (tau_s, floor, end_s) in rows.items():
        curves = [curve_of(tau_s * factor, floor, end_s) for factor in (0.97, 1.0, 1.03)]
        consensus = tuple((second * 1.0, 0.05 / (1 + second)) for second in range(18)) if name == "gossip" else ()
        found[name] = training(*curves, consensus=consensus)
    return trained_sweep(found, name="six-strategies")


def steps_sweep() -> Sweep:
    """Return a sweep over a number: the time to the target has a minimum at 8, and above 32 it is not reached."""
    rows = {1: (5.0, 0.02), 4: (4.0, 0.02), 8: (3.0, 0.025), 16: (3.2, 0.03), 32: (4.0, 0.04), 128: (5.0, 0.1)}
    return trained_sweep(
        {
            steps: training(*(curve_of(tau_s * factor, floor) for factor in (0.97, 1.03)))
            for steps, (tau_s, floor) in rows.items()
        },
        key="strategy.steps",
        name="local-steps",
    )


def scaled_sweep() -> Sweep:
    """Return trainings with batches of their own and a gradient noise scale, and forecasts of another batch."""
    found: dict[Any, LearningRun | None] = {
        name: training(curve_of(tau_s), samples_per_update=batch, noise=((0.0, 100.0), (500.0, 120.0)))
        for name, tau_s, batch in (("async", 2.0, 16.0), ("softsync", 2.4, 64.0), ("all-reduce", 3.0, 128.0))
    }
    sweep = trained_sweep(found, name="scaled")
    runs = [replace(run, learning_scale=_scale(256.0 * (1 + number))) for number, run in enumerate(sweep.runs)]
    return replace(sweep, runs=tuple(runs))


def _scale(batch: float) -> LearningScale:
    share = 1000 / (1000 + batch)
    return LearningScale(
        batch,
        1000.0,
        "samples",
        steps=100.0,
        samples=100 * batch,
        time_s=1e5,
        sample_efficiency=share,
        least_steps=50.0,
    )


def _run(number: int, axes: Mapping[str, Any], learning: LearningRun | None) -> Run:
    rate = 1000.0 - number
    run = make_run(8, axes=axes)
    return replace(
        run,
        axes={"num_gpus": 8, **axes},
        samples_per_s=rate,
        speedup=None,
        time_to_train_s=None,
        published=(),
        interval=None,
        learning=learning,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _mean_point(points: Sequence[CurvePoint]) -> CurvePoint:
    accuracies = [point.accuracy for point in points if point.accuracy is not None]
    return CurvePoint(
        _mean([point.seconds for point in points]),
        points[0].updates,
        _mean([point.loss for point in points]),
        _mean(accuracies) if accuracies else None,
    )
