"""`software.copy_stream: default`: a parent of a tree goes backward after its child, whose copy is queued before."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.programs import programs_of
from clustersim.simulate.setup import Setup
from tests.placed import placed

TREE = {"kind": "all-reduce", "algorithm": "tree", "overlap": False, "buckets": "whole", "copies": "none"}


def scenario(stream: str, num_gpus: int = 4, **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": "alexnet",
            "num_gpus": num_gpus,
            "batch": {"per_gpu": 64},
            "topology": {"kind": "star", "num_hosts": 1, "host": {"gpu": "k40", "num_gpus": 8}, "link": "10 GB/s"},
            "transport": "cuda-copies",
            "strategy": TREE | {"stream": stream},
            "compute": {"variability": 0},
            "num_iterations": 2,
        }
        | other
    )


@pytest.mark.parametrize("num_gpus", [2, 4, 8])
@pytest.mark.parametrize("exact", [False, True])
def test_an_iteration_is_longer_by_a_backward_pass_however_deep_the_tree(num_gpus: int, exact: bool) -> None:
    own, default = (clustersim.simulate(scenario(each, num_gpus), exact=exact) for each in ("own", "default"))
    backward_s = Setup(load_scenario(scenario("own")).points()[0].point).first_plan.backward_s
    assert default.iteration_s - own.iteration_s == pytest.approx(backward_s, rel=1e-9)
    assert default.breakdown_s["compute"] == pytest.approx(own.breakdown_s["compute"])


def test_one_gpu_waits_for_no_other_and_gets_a_warning() -> None:
    own, default = (clustersim.simulate(scenario(each, 1)).iteration_s for each in ("own", "default"))
    assert own == default
    found = forecast(load_scenario(scenario("default", 1)).points()[0].point).warnings
    assert any(line.startswith("software.copy_stream changes nothing") for line in found)


@pytest.mark.parametrize("other", [{"algorithm": "ring"}, {"overlap": True}, {"buckets": "layer"}])
def test_it_is_of_a_tree_behind_backward(other: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="copies in the default stream delay the parents of a tree"):
        load_scenario(scenario("default", strategy=TREE | {"stream": "default"} | other))


def test_layers_are_whole() -> None:
    with pytest.raises(InputError, match="copies in the default stream are simulated only if each GPU has the whole"):
        load_scenario(scenario("default", parallelism={"pipeline": 2, "micro_batches": 2}))


def test_it_has_no_program() -> None:
    with pytest.raises(InputError, match="parents of a tree wait for their children"):
        programs_of(Setup(load_scenario(scenario("default")).points()[0].point))
