"""Python's garbage collector runs less often during a simulation, and only then."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from clustersim.__main__ import main
from clustersim.garbage_collection import rare_collections
from clustersim.scenario import load_scenario
from clustersim.simulate import forecast


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def fails() -> None:
    assert gc.get_threshold()[0] > 10_000
    assert gc.get_threshold()[1:] == (11, 12)
    raise ValueError("wrong")


def test_the_threshold_is_raised_and_then_restored_even_after_an_error() -> None:
    gc.set_threshold(700, 11, 12)
    with pytest.raises(ValueError, match="wrong"):
        rare_collections()(fails)()
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("own", [0, 1_000_000])
def test_a_higher_threshold_or_no_collection_at_all_is_kept(own: int) -> None:
    gc.set_threshold(own, 10, 10)
    with rare_collections():
        assert gc.get_threshold()[0] == own


def test_a_forecast_runs_with_the_raised_threshold() -> None:
    seen: list[int] = []
    star = {"kind": "star", "num_hosts": 1, "host": {"gpu": "v100"}, "link": "1 GB/s", "hop": "1 us"}
    asked = {
        "model": "squeezenet-1.0",
        "num_gpus": 1,
        "batch": {"per_gpu": 8},
        "topology": star,
        "software": "plain",
        "strategy": {"kind": "all-reduce"},
    }
    gc.set_threshold(700, 10, 10)
    forecast(load_scenario(asked).points()[0].point, on_progress=lambda share: seen.append(gc.get_threshold()[0]))
    assert seen
    assert min(seen) > 10_000
    assert gc.get_threshold()[0] == 700


def test_a_command_raises_it_for_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.set_threshold(700, 10, 10)
    monkeypatch.setattr("sys.argv", ["clustersim", "--version"])
    assert main() == 0
    assert gc.get_threshold()[0] > 10_000
