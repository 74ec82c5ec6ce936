"""`optimizer.skipped`: iterations whose gradients overflow update nothing, and no rank gathers weights."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.parallelism.gradient_kernels import deepspeed_zero
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup

COPIES, RATE = 4, 1e10


def scenario(skipped: bool, **other: Any) -> dict[str, Any]:
    return {
        "model": "gpt-4x512x8-seq256",
        "num_gpus": COPIES,
        "batch": {"per_gpu": 4},
        "topology": {"kind": "star", "num_hosts": COPIES, "host": {"gpu": "v100"}, "link": "10 GB/s", "hop": 0},
        "software": "plain", "transport": "ideal",
        "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False},
        "parallelism": {"sharding": "zero-1"},
        "precision": "amp-fp16",
        "optimizer": {"kind": "adam", "skipped": skipped},
        "compute": {"variability": 0},
        "num_iterations": 2,
    } | other  # fmt: skip


def test_neither_update_nor_gather_is_left() -> None:
    """Those of an update of a share of all parameters, and of a ring that sends (n - 1) / n of the weights."""
    updated, skipped = (clustersim.simulate(scenario(is_skipped)) for is_skipped in (False, True))
    setup = Setup(load_scenario(scenario(False)).points()[0].point)
    found_s = updated.breakdown_s["compute"] - skipped.breakdown_s["compute"]
    assert found_s == pytest.approx(setup.reference.optimizer_s / COPIES, rel=1e-6)
    gathered_s = 2 * setup.model.num_parameters * (COPIES - 1) / COPIES / RATE
    found_s = updated.breakdown_s["communication_exposed"] - skipped.breakdown_s["communication_exposed"]
    assert found_s == pytest.approx(gathered_s, rel=1e-6)


def test_plain_copies_leave_out_the_update_alone() -> None:
    updated, skipped = (clustersim.simulate(scenario(each, parallelism={})) for each in (False, True))
    assert skipped.breakdown_s["communication_exposed"] == pytest.approx(updated.breakdown_s["communication_exposed"])
    assert skipped.breakdown_s["compute"] < updated.breakdown_s["compute"]


def test_a_rate_of_one_gpu_is_of_iterations_that_update() -> None:
    rate = {"single_gpu": {"samples_per_s": 100, "batch": 4, "source": "a test"}, "variability": 0}
    alone = {"num_gpus": 1, "parallelism": {}, "compute": rate}
    updated, skipped = (clustersim.simulate(scenario(each, **alone)) for each in (False, True))
    setup = Setup(load_scenario(scenario(False, **alone)).points()[0].point)
    assert updated.iteration_s == pytest.approx(0.04)
    assert skipped.iteration_s == pytest.approx(0.04 - setup.reference.optimizer_s)


@pytest.mark.parametrize(("sharding", "moved"), [(None, 2 * 2), ("zero-1", 2 * 2), ("zero-2", 2 * 2)])
def test_of_deepspeeds_kernels_those_of_the_exchange_are_left(sharding: str | None, moved: float) -> None:
    """Sums are copied back, all of them or what is a GPU's own: 2 g."""
    found = deepspeed_zero(2, 2, sharding, is_skipped=True)
    assert found.after + found.share == moved
    assert found.before == deepspeed_zero(2, 2, sharding).before


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"precision": "fp32"}, "precision fp32"),
        (
            {"strategy": {"kind": "server", "servers": {"num": 1, "on": "workers"}}, "parallelism": {}},
            "strategy server",
        ),
        (
            {"software": {"name": "plain", "gradient_kernels": "megatron"}, "parallelism": {"sharding": "zero-1"}},
            "gradient_kernels: megatron",
        ),
    ],
)
def test_what_does_not_overflow_is_not_skipped(other: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario(scenario(True, **other)).points()
    assert any(why in mistake.message and mistake.key == "optimizer.skipped" for mistake in caught.value.mistakes)
