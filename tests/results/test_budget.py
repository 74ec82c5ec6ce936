"""The error that a forecast quotes comes from the validated points nearest to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.results.budget import (
    MAX_DISTANCE,
    MIN_POINTS,
    NUM_NEAREST,
    BudgetPoint,
    Kind,
    budget_document,
    known_error,
    nearest_case,
    read_budget,
    shipped_budget,
)

RING = Kind("all-reduce", "nccl", 8, 1, "resnet50")
ERRORS = st.lists(st.floats(-0.9, 3.0), min_size=MIN_POINTS, max_size=30)


def test_a_kind_is_at_no_distance_from_itself_and_sizes_count_in_powers_of_two() -> None:
    assert RING.distance(RING) == 0.0
    assert RING.distance(replace(RING, num_gpus=32)) == pytest.approx(1.0)
    assert RING.distance(replace(RING, strategy="server")) > RING.distance(replace(RING, model="vgg16"))
    assert RING.distance(replace(RING, num_hosts=2)) == RING.distance(replace(RING, transport="mpi"))
    assert RING.distance(replace(RING, num_hosts=2)) == RING.distance(replace(RING, num_hosts=2, num_gpus=8))


def test_the_error_is_the_median_of_those_that_are_nearest() -> None:
    near = [BudgetPoint("near", RING, error / 100) for error in range(-6, 7)]
    far = [BudgetPoint("far", replace(RING, num_gpus=64), 0.9)] * 50  # 1.5 away
    found = known_error(RING, [*far, *near])
    assert found is not None
    assert found.cases == ("near",)
    assert found.num_points == len(near) > NUM_NEAREST
    assert found.median == pytest.approx(0.03)
    assert found.p90 == pytest.approx(0.06)


def test_equally_near_points_all_count_whatever_their_order() -> None:
    points = [BudgetPoint("one", RING, 0.01 * number) for number in range(40)]
    assert known_error(RING, points) == known_error(RING, points[::-1])


@given(ERRORS)
def test_nine_in_ten_lie_within_the_90th_percentile(errors: list[float]) -> None:
    found = known_error(RING, [BudgetPoint("case", RING, error) for error in errors])
    assert found is not None
    assert sum(abs(error) <= found.p90 for error in errors) >= 0.9 * len(errors)
    assert found.median <= found.p90


def test_what_is_unlike_every_case_has_no_known_error() -> None:
    point = BudgetPoint("case", RING, 0.1)
    beside = replace(RING, layout="stages", compute="estimated")
    for unlike in (replace(RING, strategy="gossip", model="vgg16"), replace(RING, num_gpus=256), beside):
        assert unlike.distance(RING) > MAX_DISTANCE
        assert known_error(unlike, [point] * MIN_POINTS) is None
    assert known_error(RING, []) is None


def test_the_nearest_case_has_its_differences() -> None:
    points = [BudgetPoint("far", replace(RING, strategy="gossip"), 0.1), BudgetPoint("near", RING, 0.2)]
    asked = replace(RING, num_gpus=4, compute="estimated")
    assert nearest_case(asked, points) == ("near", ("origin of the layer times", "number of GPUs"))
    assert nearest_case(asked, []) is None


def test_no_layout_of_paths_or_tiles_quotes_the_errors_of_whole_copies() -> None:
    for layout in ("paths", "local-fields", "stages"):
        known = known_error(Kind("all-reduce", "nccl", 4, 1, "resnet50", layout), shipped_budget())
        assert known is None or not set(known.cases) & {"hkbu-ddl-benchmarks", "tensorflow-dgx-1", "nvidia-dgx"}


def test_too_few_points_give_no_known_error() -> None:
    point = BudgetPoint("case", RING, 0.1)
    assert known_error(RING, [point] * (MIN_POINTS - 1)) is None
    assert known_error(RING, [point] * MIN_POINTS) is not None


def test_a_document_says_the_same_again() -> None:
    points = (BudgetPoint("case", RING, 0.1234),)
    assert read_budget(budget_document("1", points)) == points


def test_the_shipped_budget_has_the_cases_that_are_scored() -> None:
    cases = {point.case for point in shipped_budget()}
    assert {"firecaffe", "tensorflow-dgx-1", "hkbu-ddl-benchmarks", "mlperf-v100"} <= cases
    assert "deepbench" not in cases
