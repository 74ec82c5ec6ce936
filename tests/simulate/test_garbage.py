"""Python looks for garbage more seldom during a simulation, and only then."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from clustersim.scenario import load_scenario
from clustersim.simulate import forecast
from clustersim.simulate.garbage import seldom_collected


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def fails() -> None:
    assert gc.get_threshold()[0] > 10_000
    assert gc.get_threshold()[1:] == (11, 12)
    raise ValueError("wrong")


def test_it_is_more_seldom_and_then_as_often_as_before_whatever_happens() -> None:
    gc.set_threshold(700, 11, 12)
    with pytest.raises(ValueError, match="wrong"):
        seldom_collected()(fails)()
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("own", [0, 1_000_000])
def test_who_has_it_look_still_more_seldom_or_never_keeps_that(own: int) -> None:
    gc.set_threshold(own, 10, 10)
    with seldom_collected():
        assert gc.get_threshold()[0] == own


def test_a_forecast_is_made_so() -> None:
    seen: list[int] = []
    star = {"kind": "star", "num_hosts": 1, "host": {"gpu": "v100"}, "link": "1 GB/s", "hop": "1 us"}
    asked = {
        "model": "squeezenet-1.0",
        "num_gpus": 1,
        "batch": {"per_gpu": 8},
        "topology": star,
        "strategy": {"kind": "all-reduce"},
    }
    gc.set_threshold(700, 10, 10)
    forecast(load_scenario(asked).points()[0].point, tell=lambda share: seen.append(gc.get_threshold()[0]))
    assert seen
    assert min(seen) > 10_000
    assert gc.get_threshold()[0] == 700
