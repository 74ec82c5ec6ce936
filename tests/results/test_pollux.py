"""Pollux's formula beside what trainings really needed."""

from __future__ import annotations

import pytest

from clustersim.results.learning import CurvePoint, LearningRun, Rows
from clustersim.results.pollux import pollux, samples_ratio


def training(batch: float, to_target: float | None, noise: Rows = ()) -> LearningRun:
    curve = (CurvePoint(0.0, 0, 2.0, 0.1), CurvePoint(1.0, 100, 0.5, 0.9))
    return LearningRun(
        task="t", seeds=1, updates=100, samples_per_update=batch, final_loss=0.5, final_accuracy=0.9, curve=curve,
        seed_curves=(curve,), samples_to_target=to_target, noise=noise,
    )  # fmt: skip


def test_prediction_averages_over_the_noise_until_the_target():
    """phi = 30 and 70 before the target at update 50, and 1e9 after it; batch 10 against 50."""
    base = training(10, 500, ((0.0, 30.0), (25.0, 70.0), (75.0, 1e9)))
    found = pollux([training(50, 1000), None, base, training(20, None)])
    assert found is not None
    assert found.reference == 2
    assert found.noise_scale == 50
    (row,) = found.rows
    assert (row.place, row.batch, row.measured) == (0, 50, 2.0)
    assert row.predicted == pytest.approx((80 / 40 + 120 / 80) / 2)
    assert row.error == pytest.approx(1.75 / 2 - 1)


def test_reference_is_the_smallest_batch_with_the_fewest_samples():
    noise = ((0.0, 100.0),)
    found = pollux([training(10, 700, noise), training(10, 500, noise), training(40, 650)])
    assert found is not None
    assert found.reference == 1
    assert [row.measured for row in found.rows] == [1.4, 1.3]
    assert found.rows[0].predicted == 1  # the same batch: what differs is staleness, which the formula does not know


@pytest.mark.parametrize(
    "trainings",
    [
        [],
        [training(10, 500, ((0.0, 5.0),))],
        [training(10, 500), training(20, 500)],
        [training(10, None), training(20, 500)],
    ],
)
def test_nothing_to_compare(trainings):
    assert pollux(trainings) is None


def test_large_noise_needs_no_more_samples_and_small_noise_needs_all_in_proportion():
    assert samples_ratio(1e12, 100, 10) == pytest.approx(1)
    assert samples_ratio(1e-9, 100, 10) == pytest.approx(10)
