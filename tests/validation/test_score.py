"""The figures of a summary, calculated by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.validation.score import RankedPoint, Summary, orderings, summarise, weighted_percentile

ERRORS = st.lists(st.lists(st.floats(-0.9, 9.0), min_size=1, max_size=5), min_size=1, max_size=4)


def test_the_median_is_that_of_the_cases_medians() -> None:
    assert summarise([[0.1, -0.1, 0.1], [0.3] * 100, [-0.2]]).median_abs_error == pytest.approx(0.2)


def test_the_bias_is_a_mean_of_ratios_so_that_twice_and_half_cancel() -> None:
    assert summarise([[1.0, -0.5]]).bias == pytest.approx(0.0)
    assert summarise([[1.0], [1.0]]).bias == pytest.approx(1.0)


def test_in_the_bias_a_case_weighs_the_same_however_many_points_it_has() -> None:
    assert summarise([[1.0] * 99, [-0.5]]).bias == pytest.approx(0.0)


def test_nine_in_ten_of_one_case_lie_within_its_90th_percentile() -> None:
    assert summarise([[number / 100 for number in range(1, 11)]]).p90_abs_error == pytest.approx(0.09)


def test_a_case_of_many_points_has_no_more_weight_in_the_percentile() -> None:
    assert weighted_percentile([[0.01] * 1000, [0.5]], 0.9) == 0.5
    assert weighted_percentile([[0.01] * 1000, [0.5]], 0.5) == 0.01


@given(ERRORS)
def test_the_percentile_lies_between_median_and_largest(errors: list[list[float]]) -> None:
    sizes = [[abs(error) for error in case] for case in errors]
    middle, most = weighted_percentile(sizes, 0.5), weighted_percentile(sizes, 0.9)
    assert min(map(min, sizes)) <= middle <= most <= max(map(max, sizes))


@given(ERRORS)
def test_the_order_of_the_cases_changes_nothing(errors: list[list[float]]) -> None:
    there, back = summarise(errors), summarise(errors[::-1])
    assert there.median_abs_error == back.median_abs_error
    assert there.p90_abs_error == back.p90_abs_error
    assert there.bias == pytest.approx(back.bias, abs=1e-12)


def test_without_a_point_there_is_no_figure() -> None:
    assert summarise([[], []]) == Summary(None, None, None, None, 0, 0)


def test_a_pair_is_ranked_where_it_differs_by_more_than_5_percent() -> None:
    fast, slow = RankedPoint("g", "ring", 11.0, 10.0), RankedPoint("g", "tree", 8.0, 9.0)
    same, other = RankedPoint("g", "server", 20.0, 10.2), RankedPoint("h", "ring", 1.0, 100.0)
    assert orderings([fast, slow]) == [True]
    assert orderings([slow, fast]) == [True]
    assert orderings([fast, same]) == []
    assert orderings([fast, other]) == []


def test_a_tie_and_a_wrong_order_are_both_wrong() -> None:
    one, other = RankedPoint("g", "ring", 5.0, 10.0), RankedPoint("g", "tree", 5.0, 1.0)
    assert orderings([one, other]) == [False]
    assert orderings([one, RankedPoint("g", "tree", 6.0, 1.0)]) == [False]
    assert summarise([[0.0]], [True, False]).ordering_correct == 0.5


def test_the_bias_of_one_case_is_its_geometric_mean() -> None:
    found = summarise([[0.1, 0.2, -0.3]]).bias
    assert found == pytest.approx((1.1 * 1.2 * 0.7) ** (1 / 3) - 1)
    assert math.isfinite(found)
