"""Statistical and hardware efficiency of trainings."""

from __future__ import annotations

import pytest

from clustersim.results.learning import CurvePoint, LearningRun
from clustersim.results.learning_efficiency import efficiencies, samples_per_second


def training(seconds: float, updates: int, samples_per_update: float, to_target: float | None) -> LearningRun:
    curve = (CurvePoint(0.0, 0, 2.0, 0.1), CurvePoint(seconds, updates, 0.5, 0.9))
    return LearningRun(
        task="t",
        seeds=1,
        updates=updates,
        samples_per_update=samples_per_update,
        final_loss=0.5,
        final_accuracy=0.9,
        curve=curve,
        seed_curves=(curve,),
        samples_to_target=to_target,
    )


def test_rate_counts_applied_samples():
    assert samples_per_second(training(2.0, 10, 16, None)) == 80
    assert samples_per_second(training(0.0, 10, 16, None)) is None


def test_efficiencies_are_relative_to_the_best():
    found = efficiencies([training(1.0, 100, 8, 400), training(2.0, 100, 8, 200), None, training(4.0, 100, 8, None)])
    assert found == [(1.0, 0.5, 0.5), (0.5, 1.0, 0.5), None, (0.25, None, None)]


def test_product_orders_as_the_time_to_the_target():
    """time = samples to the target / samples per second, so times the product it is the same for all."""
    trainings = [training(1.0, 100, 8, 400), training(3.0, 70, 16, 250), training(2.5, 90, 4, 330)]
    times_s = [each.samples_to_target / samples_per_second(each) for each in trainings]
    products = [each.product for each in efficiencies(trainings)]
    scaled = [time_s * product for time_s, product in zip(times_s, products, strict=True)]
    assert scaled == pytest.approx([scaled[0]] * 3)
