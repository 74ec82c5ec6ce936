"""DiLoCo: the outer step in closed form, its bytes and its memory."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.collectives import closed_form
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_constants import moved_s
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup
from tests.contracts.exactness import check_exact
from tests.contracts.test_strategies import SITUATIONS
from tests.contracts.test_strategies import scenario as in_situation
from tests.placed import placed

WORKERS, HOP_S, RATE = 4, 1e-6, 1.25e9
STAR = {"kind": "star", "num_hosts": 4, "host": {"gpu": "a100"}, "link": f"{RATE:g} B/s", "hop": "1 us"}
BOX = {**STAR, "host": {"template": "dual-socket", "gpu": "v100", "num_gpus": 1, "nics": 1}}


def scenario(steps: int = 5, **other: Any) -> dict[str, Any]:
    strategy = {"kind": "local", "outer": "nesterov", "steps": steps, "buckets": "whole", "algorithm": "ring"}
    strategy |= other.pop("strategy", {})
    base = {
        "model": "gpt2-small",
        "num_gpus": WORKERS,
        "batch": {"per_gpu": 2},
        "topology": STAR,
        "transport": "ideal",
        "strategy": strategy,
        "num_iterations": 5,
    }
    return placed({**base, **other})


def setup_of(asked: dict[str, Any]) -> Setup:
    return Setup(load_scenario(asked).points()[0].point)


@pytest.mark.parametrize(("number", "num_bytes"), [("fp32", 4.0), ("bf16", 2.0), ("int8", 1.0)])
@pytest.mark.parametrize("steps", [1, 5])
def test_a_round_is_its_inner_steps_and_one_outer_step(number: str, num_bytes: float, steps: int) -> None:
    """H iterations; then in fp32 12 P bytes for the difference and 20 P for Nesterov's update, and one all-reduce.

    A format of fewer bits is cast before the all-reduce and after it: 2 (4 + b) P bytes more.
    """
    asked = scenario(steps, strategy={"outer_gradients": number})
    run, setup = clustersim.simulate(asked), setup_of(asked)
    parameters = float(setup.model.num_parameters)
    cast = 0.0 if number == "fp32" else 2 * (4 + num_bytes)
    outer_s = setup.slowest_of("a100") * moved_s(parameters * (32 + cast), load_gpu("a100"), 0)
    sum_s = closed_form("all-reduce", "ring", WORKERS, parameters * num_bytes, 2 * HOP_S, RATE)
    local = clustersim.simulate(scenario(steps, strategy={"outer": "average"}))
    inner_s = local.iteration_s - local.breakdown_s["communication_exposed"]
    assert run.iteration_s == pytest.approx(inner_s + (outer_s + sum_s) / steps, rel=1e-9)
    assert run.breakdown_s["communication_exposed"] == pytest.approx(sum_s / steps, rel=1e-9)


def test_weights_in_host_memory_are_copied_there_and_back_once_a_round() -> None:
    on_gpu, in_host = (
        clustersim.simulate(scenario(topology=BOX, strategy={"outer": outer}))
        for outer in ("nesterov", "nesterov-in-host")
    )
    parameters = setup_of(scenario(topology=BOX)).model.num_parameters
    more_s = in_host.iteration_s - on_gpu.iteration_s
    assert in_host.breakdown_s["offload"] == pytest.approx(more_s, rel=1e-9)
    assert 2 * 4 * parameters / 16e9 / 5 < more_s < 2 * 4 * parameters / 8e9 / 5  # PCIe 3, x16
    assert on_gpu.memory_bytes - in_host.memory_bytes == pytest.approx(4 * parameters, rel=1e-9)


def test_a_library_in_host_memory_copies_what_is_sent() -> None:
    """With int8 a quarter of fp32's bytes cross PCIe, too, before the all-reduce and after it."""
    asked = [
        scenario(1, topology=BOX, transport="mpi", strategy={"outer_gradients": each}) for each in ("fp32", "int8")
    ]
    plain, quarter = (clustersim.simulate(each) for each in asked)
    used = [
        sum(kind.num_bytes for kind in run.link_classes if kind.kind.startswith("pcie")) for run in (plain, quarter)
    ]
    assert used[0] > 0
    assert used[1] == pytest.approx(used[0] / 4, rel=1e-6)


def test_a_gpu_stores_a_momentum_and_the_weights_of_the_last_outer_step() -> None:
    local, outer = (setup_of(scenario(strategy={"outer": outer})) for outer in ("average", "nesterov"))
    (local_held, held) = (each.memory_bytes("a100") for each in (local, outer))
    assert held["outer step"] == 8 * outer.model.num_parameters
    assert sum(held.values()) - sum(local_held.values()) == pytest.approx(held["outer step"], rel=1e-9)


def test_workers_of_several_gpus_take_the_outer_step_stage_by_stage() -> None:
    layout = {"pipeline": 2, "micro_batches": 2}
    asked = scenario(num_gpus=8, topology={**STAR, "num_hosts": 8}, parallelism=layout)
    setup = setup_of(asked)
    assert setup.laid_out is not None
    stored = sum(held["outer step"] for held in setup.laid_out.memory)
    parameters = setup.model.num_parameters
    assert 8 * parameters <= stored <= 8 * (parameters + 50257 * 768)  # a tied matrix is on both stages
    plain = clustersim.simulate({**asked, "strategy": {**asked["strategy"], "outer": "average"}})
    fullest = max(held["outer step"] for held in setup.laid_out.memory) / 8
    outer_s = setup.slowest_of("a100") * moved_s(32 * fullest, load_gpu("a100"), 0)
    assert 0 < clustersim.simulate(asked).iteration_s - plain.iteration_s < 1.1 * outer_s / 5


def test_stragglers_slow_the_outer_update_too() -> None:
    slow = {"stragglers": [{"kind": "constant", "factor": 2, "of": [0]}]}
    fast_s, slow_s = (clustersim.simulate(scenario(5, **other)).iteration_s for other in ({}, slow))
    sum_s = closed_form("all-reduce", "ring", WORKERS, 4.0 * setup_of(scenario()).model.num_parameters, 2e-6, RATE)
    assert slow_s - sum_s / 5 == pytest.approx(2 * (fast_s - sum_s / 5), rel=0.02)


def test_gradients_are_compressed_by_its_own_key() -> None:
    with pytest.raises(InputError, match="set outer_gradients"):
        load_scenario(scenario(compression={"kind": "top-k"})).points()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_default_equals_the_exact_result(situation: str) -> None:
    strategy = {"outer": "nesterov-in-host", "steps": 2, "outer_gradients": "bf16"}
    asked = in_situation("local", SITUATIONS[situation])
    check_exact({**asked, "strategy": {**asked["strategy"], **strategy}}, may_be_refused=True)


def test_options_of_the_outer_step_are_said_to_change_nothing_without_it() -> None:
    asked = scenario(strategy={"outer": "average", "outer_gradients": "bf16"})
    assert any("outer_gradients changes nothing" in each for each in clustersim.sweep(asked).warnings)


def test_diloco_is_found_by_its_name() -> None:
    with pytest.raises(InputError, match="outer: nesterov"):
        load_scenario(scenario(strategy={"kind": "diloco"})).points()


GROUPS = {
    "num_gpus": 8,
    "topology": {**STAR, "num_hosts": 8},
    "parallelism": {"sharding": "zero-3", "sharding_over": 4},
}


@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
def test_a_group_that_shards_is_a_worker(sharding: str) -> None:
    """Two groups of four: each trains as one alone does, and a rank combines its quarter with one of the other's."""
    layout = {"sharding": sharding, "sharding_over": 4}
    asked = scenario(**{**GROUPS, "parallelism": layout})
    run, setup = clustersim.simulate(asked), setup_of(asked)
    alone = scenario(num_gpus=4, parallelism={"sharding": sharding}, strategy={"kind": "all-reduce"})
    del alone["strategy"]["outer"], alone["strategy"]["steps"]
    inner_s = clustersim.simulate(alone).iteration_s
    parameters = setup.model.num_parameters / 4
    outer_s = setup.slowest_of("a100") * moved_s(32 * parameters, load_gpu("a100"), 0)
    sum_s = closed_form("all-reduce", "ring", 2, 4.0 * parameters, 2 * HOP_S, RATE)
    assert run.iteration_s == pytest.approx(inner_s + (outer_s + sum_s) / 5, rel=2e-3)
    assert setup.laid_out is not None
    assert setup.laid_out.memory[0]["outer step"] == pytest.approx(8 * parameters)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"stragglers": [{"kind": "lognormal", "cv": 0.2}]},
        {"parallelism": {"sharding": "zero-2", "sharding_over": 2, "pipeline": 2, "micro_batches": 2}},
        {"strategy": {"outer": "average"}},
    ],
    ids=str,
)
def test_groups_give_the_exact_result(other: dict[str, Any]) -> None:
    check_exact(scenario(2, **{**GROUPS, **other}))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"sharding": "zero-3"}, "give sharding_over, the replicas of a worker"),
        ({"sharding": "zero-1", "sharding_over": 2, "sharding_by": "tensors"}, "without sharding_by"),
        ({"sharding": "zero-1", "sharding_over": 2, "gather_overlap": True}, "without gather_overlap"),
    ],
)
def test_what_groups_cannot_do_is_refused(layout: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_scenario(scenario(**{**GROUPS, "parallelism": layout})).points()
