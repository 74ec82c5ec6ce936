"""`zero-2` without overlap: each bucket of gradients is exchanged when it is full, and nothing computes meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup
from tests.placed import placed
from tests.simulate.shortcut_checks import check_is_exact

COPIES, RATE = 4, 1e10


def scenario(sharding: str, overlap: bool = False, micro_batches: int = 1, **other: Any) -> dict[str, Any]:
    return placed({
        "model": "gpt-4x512x8-seq256",
        "num_gpus": COPIES,
        "batch": {"per_gpu": 4},
        "topology": {"kind": "star", "num_hosts": COPIES, "host": {"gpu": "a100"}, "link": "10 GB/s", "hop": 0},
        "transport": "ideal",
        "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": overlap, "buckets": "4 MiB"},
        "parallelism": {"sharding": sharding, "micro_batches": micro_batches},
        "compute": {"variability": 0},
        "num_iterations": 2,
    } | other)  # fmt: skip


def exposed_s(asked: dict[str, Any]) -> float:
    return clustersim.simulate(asked).breakdown_s["communication_exposed"]


def num_gradient_bytes() -> float:
    setup = Setup(load_scenario(scenario("zero-2")).points()[0].point)
    return setup.model.num_parameters * setup.reference.gradient_bytes_per_parameter


def test_all_that_is_exchanged_is_waited_for() -> None:
    """As much as by copies that exchange after backward: links are busy as long, and nothing is beside them."""
    whole, by_bucket = (clustersim.simulate(scenario(sharding)) for sharding in ("zero-1", "zero-2"))
    assert by_bucket.iteration_s == pytest.approx(whole.iteration_s, rel=1e-6)
    assert clustersim.simulate(scenario("zero-2", overlap=True)).iteration_s < 0.999 * by_bucket.iteration_s


def test_every_micro_batch_has_an_exchange_of_its_own() -> None:
    """A reduce-scatter in a ring sends (n - 1) / n of the gradients."""
    once, twice = (exposed_s(scenario("zero-2", micro_batches=num)) for num in (1, 2))
    assert twice - once == pytest.approx(num_gradient_bytes() * (COPIES - 1) / COPIES / RATE, rel=1e-6)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_its_shortcuts_are_those_of_the_exact_run(micro_batches: int) -> None:
    check_is_exact(scenario("zero-2", micro_batches=micro_batches))
    check_is_exact(scenario("zero-2", micro_batches=micro_batches, transport="nccl", num_gpus=2))


def test_deepspeed_reduces_each_stretch_to_its_owner() -> None:
    """Of two copies one sends all of each stretch and the other receives it, one after another: b / rate in all."""
    kernels = {"sharding": "zero-2", "gradient_kernels": "deepspeed-zero"}
    plain = clustersim.simulate(scenario("zero-2", num_gpus=2))
    found = clustersim.simulate(scenario("zero-2", num_gpus=2, parallelism=kernels))
    assert found.breakdown_s["compute"] > plain.breakdown_s["compute"]
    more_s = found.breakdown_s["communication_exposed"] - plain.breakdown_s["communication_exposed"]
    assert more_s == pytest.approx(num_gradient_bytes() / 2 / RATE, rel=1e-6)


@pytest.mark.parametrize("num_gpus", [3, 4])
def test_no_reduce_to_an_owner_begins_before_the_last_one_has_ended(num_gpus: int) -> None:
    """Each takes b / rate and what fills its chain; side by side they would take (n - 1) / n of that, as scattering."""
    own_s, plain_s = (
        exposed_s(scenario("zero-2", num_gpus=num_gpus, parallelism={"sharding": "zero-2"} | kernels))
        for kernels in ({"gradient_kernels": "deepspeed-zero"}, {})
    )
    assert own_s - plain_s > num_gradient_bytes() / num_gpus / RATE


def test_reduces_to_owners_are_the_same_in_an_exact_run() -> None:
    check_is_exact(scenario("zero-2", parallelism={"sharding": "zero-2", "gradient_kernels": "deepspeed-zero"}))


@pytest.mark.parametrize("other", [{"sharding_over": 2}, {"expert": 2}])
def test_other_kinds_of_sharding_have_no_buckets_to_reduce(other: dict[str, int]) -> None:
    layout = {"sharding": "zero-2", "gradient_kernels": "deepspeed-zero", **other}
    model = {"model": "mixtral-8x7b", "memory_check": False} if "expert" in other else {}
    with pytest.raises(InputError, match=f"with {next(iter(other))}: 2 they do not"):
        load_scenario(scenario("zero-2", parallelism=layout, **model)).points()
