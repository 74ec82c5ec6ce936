"""Real trainings of the lab: their logs of versions, trained again, give the weights that the real server had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from validate.lab.campaign import LEARNING
from validate.lab.case import Case
from validate.lab.document import read_campaign
from validate.lab.forecast import forecast
from validate.lab.learned import MEASURED, digest, missed, read_first, replayed, retrained, scored
from validate.lab.learning import TIME_TO_TARGET, difference

pytestmark = pytest.mark.learning
_, CASES = read_campaign(MEASURED)


ROUNDING = 1e-3
"""Clustersim adds gradients that were computed on one version in another order than the real server."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_log_gives_the_real_weights(case: Case) -> None:
    curve, weights = replayed(case)
    assert curve == [pytest.approx(point, rel=ROUNDING, abs=2e-6) for point in case.learned["curve"]]
    assert difference(weights, case.learned["sketch"]) < ROUNDING


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_with_sums_in_the_order_of_the_real_server_they_are_equal_to_the_digits_that_are_stored(case: Case) -> None:
    assert difference(retrained(case), case.learned["sketch"]) < ROUNDING


def test_one_gradient_of_another_version_gives_other_weights() -> None:
    """The comparison would show an order that is wrong in one place."""
    case = next(case for case in CASES if case.ask["strategy"]["kind"] == "async")
    log = case.learned["log"]
    changed = [read + (row == 100) for row, read in enumerate(log["read"])]
    _, weights = replayed(replace(case, learned={**case.learned, "log": {**log, "read": changed}}))
    assert difference(weights, case.learned["sketch"]) > 2 * ROUNDING


def test_the_trainings_are_still_those_of_the_campaign() -> None:
    planned = [case for experiment in LEARNING for case in experiment.planned()]
    assert [digest(case) for case in planned] == [digest(case) for case in CASES]


def test_the_present_version_meets_what_is_required_too() -> None:
    forecasts = {case.name: forecast(case).figures[TIME_TO_TARGET] for case in CASES}
    assert missed(scored(CASES, forecasts)) == []
    assert set(forecasts) == set(read_first())
