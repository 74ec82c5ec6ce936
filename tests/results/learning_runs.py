"""Trainings that were made up, for tests of what reads, writes and draws them."""

from __future__ import annotations

from typing import Any

from clustersim.results import CurvePoint, LearningRun


def learning_run(**changes: Any) -> LearningRun:
    """Return a training of two seeds that both reach an accuracy of 0.9."""
    curves = tuple(
        tuple(CurvePoint(number * step_s, 10 * number, 2.0 / (1 + number), 0.1 + 0.2 * number) for number in range(5))
        for step_s in (1.0, 1.5)
    )
    mean = tuple(point._replace(seconds=1.25 * number) for number, point in enumerate(curves[0]))
    figures: dict[str, Any] = {
        "task": "a perceptron",
        "seeds": 2,
        "updates": 40,
        "samples_per_update": 64.0,
        "final_loss": 0.4,
        "final_accuracy": 0.9,
        "curve": mean,
        "seed_curves": curves,
        "target_metric": "accuracy",
        "target": 0.9,
        "num_reached": 2,
        "time_to_target_s": 5.0,
        "time_to_target_interval": (3.0, 8.0),
        "samples_to_target": 2560.0,
        "consensus": ((1.0, 0.5), (2.0, 0.25)),
    }
    return LearningRun(**{**figures, **changes})
