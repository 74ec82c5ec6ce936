"""Which settings are computed beforehand."""

from __future__ import annotations

import pytest

from clustersim.what_if import Knob, Stop
from clustersim.what_if.planned_points import PlannedPoints, values_alone, values_combined


def number(name: str, num: int, current: int = 0) -> Knob:
    stops = tuple(Stop(value, str(value), float(value)) for value in range(num))
    return Knob(name, name, name, "number", stops, current)


def choice(name: str, *values: str) -> Knob:
    return Knob(name, name, name, "choice", tuple(Stop(value, value) for value in values), 0)


KNOBS = (number("size", 5), number("link", 7, current=3), choice("gpu", "old", "slow", "quick", "best", "good"))
RATES = {
    **{("size", str(value)): 100.0 for value in range(5)},
    **{("link", str(value)): 90.0 + 10 * value for value in range(7)},
    **{("gpu", name): rate for name, rate in (("old", 100.0), ("slow", 50.0), ("quick", 300.0), ("best", 500.0))},
}


def test_all_values_are_computed_alone_where_they_fit() -> None:
    alone = values_alone(KNOBS, 4 + 6 + 4)
    assert {name: len(texts) for name, texts in alone.items()} == {"size": 5, "link": 7, "gpu": 5}


@pytest.mark.parametrize("most", range(1, 14))
def test_fewer_points_are_values_spread_over_the_scale_with_that_of_the_scenario(most: int) -> None:
    alone = values_alone(KNOBS, most)
    assert sum(len(texts) - 1 for texts in alone.values()) == most
    assert all(knob.now.text in alone[knob.name] for knob in KNOBS)
    if len(alone["link"]) > 2:
        assert {alone["link"][0], alone["link"][-1]} == {"0", "6"}
    assert alone["gpu"] == tuple(stop.text for stop in KNOBS[2].stops)[: len(alone["gpu"])]


@pytest.mark.parametrize("most", [1, 2, 7, 25, 99, 100, 1000])
def test_combinations_are_at_most_so_many_and_have_the_scenarios_own_values(most: int) -> None:
    combined = values_combined(KNOBS, {}, RATES, most)
    combinations = PlannedPoints({}, combined).combinations()
    assert len(combinations) <= most
    assert len({tuple(each.items()) for each in combinations}) == len(combinations)
    assert all(knob.now.text in combined[knob.name] for knob in KNOBS if knob.name in combined)


def test_listed_knobs_are_combined_first_then_those_that_raise_the_rate_most() -> None:
    assert set(values_combined(KNOBS, {}, RATES, 4)) == {"gpu"}
    assert set(values_combined(KNOBS, {}, RATES, 20)) == {"gpu", "link"}
    assert set(values_combined(KNOBS, {"size": ["0", "1"]}, RATES, 3)) == {"size"}
    assert set(values_combined(KNOBS, {"size": ["0"]}, RATES, 4)) == {"gpu"}
    assert list(values_combined(KNOBS, {"size": ["0", "1"]}, RATES, 100)) == ["size", "link", "gpu"]


def test_of_choices_the_listed_ones_are_combined_then_the_quickest() -> None:
    assert values_combined(KNOBS, {}, RATES, 3)["gpu"] == ("old", "quick", "best")
    assert values_combined(KNOBS, {"gpu": ["old", "slow"]}, RATES, 3)["gpu"] == ("old", "slow", "best")
    assert values_combined(KNOBS, {"gpu": ["old", "slow"]}, {}, 3)["gpu"] == ("old", "slow")


def test_numbers_are_combined_over_their_scale_if_none_are_listed() -> None:
    assert values_combined(KNOBS, {"link": ["3"]}, RATES, 1000)["link"] == ("0", "2", "3", "4", "6")
    assert values_combined(KNOBS, {"link": ["3", "5"]}, RATES, 1000)["link"] == ("3", "5")


def test_a_value_that_was_refused_is_no_choice_to_combine() -> None:
    assert "good" not in values_combined(KNOBS, {}, RATES, 1000)["gpu"]
    fewer = {key: rate for key, rate in RATES.items() if key not in {("size", "1"), ("size", "4")}}
    assert values_combined(KNOBS, {}, fewer, 1000)["size"] == ("0", "2", "3")
