"""Which training is first at each level: closed forms, seeds that do not agree, and curves that end."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.report.leaders import NUM_LEVELS, Reached, is_faster, leads, reach_times
from clustersim.results.learning import CurvePoint
from tests.report.learning_runs import curve_of, training


def crossing(one: tuple[float, float], other: tuple[float, float], start: float = 0.9) -> float:
    """Return the error at which two exponentials to different floors need the same time."""
    low, high = other[1] if other[1] > one[1] else one[1], start * 0.999
    for _ in range(200):
        middle = math.sqrt(low * high)
        times = [
            tau * math.log((start - floor) / (middle - floor)) if middle > floor else math.inf
            for tau, floor in (one, other)
        ]
        low, high = (middle, high) if times[0] > times[1] else (low, middle)
    return low


def test_the_lead_changes_where_two_exponentials_cross() -> None:
    fast, good = (2.0, 0.06), (4.0, 0.01)
    trainings = [training(curve_of(*each, end_s=40.0, num_points=4001)) for each in (fast, good)]
    first, second = leads(trainings, "accuracy")
    error = crossing(fast, good)
    assert (first.first, second.first) == (0, 1)
    # two levels apart in the logarithm of the error
    assert 1.0 - first.level == pytest.approx(error, rel=2.2 * math.log(0.9 / 0.01) / NUM_LEVELS)
    assert first.seconds == pytest.approx(fast[0] * math.log((0.9 - 0.06) / (1.0 - first.level - 0.06)), abs=0.02)
    assert second.level == pytest.approx(0.99, abs=1e-3)


def test_a_training_that_is_faster_everywhere_leads_everywhere() -> None:
    trainings = [training(curve_of(tau, 0.02)) for tau in (4.0, 2.0, 3.0)]
    assert [each.first for each in leads(trainings, "accuracy")] == [1]
    assert [each.first for each in leads(trainings, "loss")] == [1]


def test_losses_may_be_led_by_another_run_than_accuracies() -> None:
    points = curve_of(2.0)
    worse = [point._replace(loss=point.loss * 3) for point in points]
    trainings = [training(worse), training(curve_of(2.5))]
    assert leads(trainings, "accuracy")[0].first == 0
    assert leads(trainings, "loss")[0].first == 1


def test_trainings_that_differ_by_less_than_their_seeds_are_equals() -> None:
    one = training(*(curve_of(tau) for tau in (2.0, 3.0, 4.0)))
    other = training(*(curve_of(tau) for tau in (3.0, 2.2, 3.9)))
    (lead,) = leads([one, other], "accuracy")
    assert {lead.first, *lead.equals} == {0, 1}


def test_noise_of_one_evaluation_changes_no_lead() -> None:
    noise = np.random.default_rng(2).normal(0.0, 0.02, 101)
    points = curve_of(3.0)
    noisy = [
        point._replace(accuracy=(point.accuracy or 0.0) + shift) for point, shift in zip(points, noise, strict=True)
    ]
    found = leads([training(noisy), training(curve_of(6.0))], "accuracy")
    assert [each.first for each in found] == [0]


def test_a_training_of_which_a_seed_stays_behind_is_no_candidate_there() -> None:
    quick = training(*[curve_of(1.0, 0.02)] * 3, curve_of(1.0, 0.3))
    slow = training(*[curve_of(3.0, 0.02)] * 4)
    first, second = leads([quick, slow], "accuracy")
    assert (first.first, second.first) == (0, 1)
    assert 0.5 < first.level < 0.7  # where the slow seed has no more


def test_the_target_is_a_level() -> None:
    trainings = [training(curve_of(2.0, 0.0501)), training(curve_of(4.0, 0.02))]
    found = leads(trainings, "accuracy", 0.95)
    assert found[0].level < 0.95
    assert found[-1].first == 1


def test_without_progress_there_is_no_lead() -> None:
    flat = [CurvePoint(float(number), number, 2.3, 0.1) for number in range(5)]
    assert leads([training(flat), training(flat)], "accuracy") == []
    assert leads([training(flat[:1])], "loss") == []
    regression = [CurvePoint(0.0, 0, 1.0, None), CurvePoint(1.0, 1, 0.5, None)]
    assert leads([training(regression, target=None)], "accuracy") == []
    assert [each.first for each in leads([training(regression, target=None)], "loss")] == [0]


def test_a_curve_that_goes_back_after_a_failure_counts_its_first_times() -> None:
    points = [
        CurvePoint(0.0, 0, 2.0, 0.1),
        CurvePoint(1.0, 2, 1.0, 0.6),
        CurvePoint(2.0, 1, 1.5, 0.4),
        CurvePoint(3.0, 3, 0.5, 0.8),
    ]
    errors = np.array([0.6, 0.4, 0.2, 0.1])
    assert reach_times(tuple(points), "accuracy", errors).tolist() == [1.0, 1.0, pytest.approx(3.0), math.inf]


def test_a_difference_of_less_than_two_evaluations_is_none() -> None:
    one, other = np.array([10.0, 10.0]), np.array([11.0, 11.0])
    assert is_faster(Reached(one, 0.5), Reached(other, 0.5))
    assert not is_faster(Reached(one, 1.5), Reached(other, 0.5))
    assert is_faster(Reached(one, 0.5), Reached(np.array([11.0, math.inf]), 0.5))
    assert not is_faster(Reached(np.array([10.0, math.inf]), 0.5), Reached(other, 0.5))


@given(st.lists(st.tuples(st.floats(0.5, 9.0), st.floats(0.0, 0.5)), min_size=1, max_size=6), st.integers(1, 3))
def test_leads_are_few_follow_each_other_and_end_at_the_best_level(rows, seeds) -> None:
    trainings = [
        training(*(curve_of(tau * (1 + 0.1 * seed), floor, num_points=30) for seed in range(seeds)))
        for tau, floor in rows
    ]
    found = leads(trainings, "accuracy")
    levels = [each.level for each in found]
    assert levels == sorted(levels)
    assert all(one.first != two.first for one, two in pairwise(found))
    best = max(min(max(point.accuracy for point in curve) for curve in each.seed_curves) for each in trainings)
    assert levels[-1] == pytest.approx(min(best, 1 - 1e-4))
    assert all(math.isfinite(each.seconds) and each.seconds > 0 for each in found)
