"""Real trainings of the lab: their logs of versions, trained again, give the weights that the real server had."""

from __future__ import annotations

import pytest

from validate.lab.campaign import LEARNING
from validate.lab.case import Case
from validate.lab.document import read_campaign
from validate.lab.forecast import forecast
from validate.lab.learned import MEASURED, digest, missed, read_first, replayed, scored
from validate.lab.learning import TIME_TO_TARGET, sketch

pytestmark = pytest.mark.learning
_, CASES = read_campaign(MEASURED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_log_gives_the_real_weights(case: Case) -> None:
    curve, weights = replayed(case)
    assert curve == [pytest.approx(point, rel=1e-4, abs=2e-6) for point in case.learned["curve"]]
    assert sketch(weights.numpy()) == pytest.approx(case.learned["sketch"], rel=1e-4, abs=1e-4)


def test_another_order_gives_other_weights() -> None:
    """What the replay is compared with would show an order that is wrong in one place."""
    case = next(case for case in CASES if case.ask["strategy"]["kind"] == "async")
    case.learned["log"]["read"][100] += 1
    try:
        _, weights = replayed(case)
    finally:
        case.learned["log"]["read"][100] -= 1
    assert sketch(weights.numpy()) != pytest.approx(case.learned["sketch"], rel=1e-4, abs=1e-4)


def test_the_trainings_are_still_those_of_the_campaign() -> None:
    planned = [case for experiment in LEARNING for case in experiment.planned()]
    assert [digest(case) for case in planned] == [digest(case) for case in CASES]


def test_the_present_version_meets_what_is_required_too() -> None:
    forecasts = {case.name: forecast(case).figures[TIME_TO_TARGET] for case in CASES}
    assert missed(scored(CASES, forecasts)) == []
    assert set(forecasts) == set(read_first())
