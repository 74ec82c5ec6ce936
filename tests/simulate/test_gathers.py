"""Weights that every micro-batch gathers, as its backward frees them (FSDP's `SHARD_GRAD_OP`)."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate.scenario_warnings import settings_without_effect
from clustersim.simulate.setup import Setup
from tests.placed import placed
from tests.simulate.shortcut_checks import check_is_exact

COPIES, RATE = 4, 1e10


def scenario(gathers: str, micro_batches: int, overlap: bool = False, **layout: Any) -> dict[str, Any]:
    return placed(
        {
            "model": "gpt-4x512x8-seq256",
            "num_gpus": COPIES,
            "batch": {"per_gpu": 4},
            "topology": {"kind": "star", "num_hosts": COPIES, "host": {"gpu": "a100"}, "link": "10 GB/s", "hop": 0},
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": overlap, "buckets": "whole"},
            "parallelism": {"sharding": "zero-2", "micro_batches": micro_batches, "gathers": gathers, **layout},
            "precision": "amp-bf16",
            "compute": {"variability": 0, "launch": "graphs"},
            "num_iterations": 2,
        }
    )


def iteration_s(*asked: Any, **layout: Any) -> float:
    return clustersim.simulate(scenario(*asked, **layout)).iteration_s


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_every_micro_batch_but_the_first_gathers_once_more_than_an_update_does(micro_batches: int) -> None:
    """All weights, 2 bytes each, of which each GPU gets (n - 1) / n; the first gathers what the update has written."""
    setup = Setup(load_scenario(scenario("update", 1)).points()[0].point)
    gather_s = 2 * setup.model.num_parameters * (COPIES - 1) / COPIES / RATE
    once, each = (iteration_s(gathers, micro_batches) for gathers in ("update", "micro-batch"))
    assert each - once == pytest.approx((micro_batches - 1) * gather_s, rel=1e-6, abs=1e-9)


def test_with_overlap_the_next_blocks_weights_come_beside_compute() -> None:
    assert iteration_s("micro-batch", 4, True) < iteration_s("micro-batch", 4)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("layout", [{}, {"sharding_over": 2}, {"tensor": 2}, {"recompute": "full"}])
def test_its_shortcuts_are_those_of_the_exact_run(overlap: bool, layout: dict[str, Any]) -> None:
    asked = scenario("micro-batch", 2, overlap, **layout)
    check_is_exact({**asked, "software": {**asked["software"], "launch": "queued"}, "compute": {}})


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"sharding": "zero-1"}, "which shards gradients"),
        ({"sharding": "zero-3"}, "which shards gradients"),
        ({"gather_overlap": True}, "gather_overlap gathers weights after an update"),
        ({"offload": "optimizer"}, "offload of the optimizer gathers weights after an update"),
    ],
)
def test_where_no_pass_frees_weights_it_is_refused(layout: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        load_scenario(scenario("micro-batch", 2, **layout)).points()
    assert [mistake.key for mistake in error.value.mistakes] == ["software.gathers"]
    assert message in str(error.value)


def test_without_sharding_a_warning_says_that_it_changes_nothing() -> None:
    point = load_scenario(scenario("micro-batch", 2, tensor=COPIES)).points()[0].point
    assert any("parallelism.gathers changes nothing" in each for each in settings_without_effect(point, ("gathers",)))
