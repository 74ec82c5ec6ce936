"""What FSDP copies around its collectives: bytes at the memory rate, for every gathering and every sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.kernels.kernel_constants import constants_of
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact, check_traces_are_exact

COPIES, MODEL = 4, "gpt-2x256x4-seq128-vocab512-fused"


def scenario(layout: dict[str, Any], **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": MODEL,
            "num_gpus": COPIES,
            "batch": {"per_gpu": 4},
            "topology": {"kind": "star", "num_hosts": COPIES, "host": {"gpu": "a100"}, "link": "1 TB/s", "hop": "1 us"},
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
            "parallelism": {"sharding": "zero-3", **layout},
            "precision": "amp-bf16",
            "num_iterations": 2,
            **other,
        }
    )


def setup_of(layout: dict[str, Any], **other: Any) -> Setup:
    return Setup(load_scenario(scenario(layout, **other)).points()[0].point)


def compute_s(layout: dict[str, Any], **other: Any) -> dict[str, float]:
    return setup_of(layout, **other).laid_out.plans[0].program.phase_s()


@pytest.mark.parametrize("layout", [{}, {"micro_batches": 2}, {"recompute": "full"}, {"sharding_over": 2}])
@pytest.mark.parametrize(
    ("kind", "forward", "backward"), [("parameters", 4, 4 + 6), ("flat", 0, 4 + 6 + 8), ("flat-padded", 0, 4 + 6 + 16)]
)
def test_each_pass_moves_so_many_bytes_of_a_parameter(
    layout: dict[str, Any], kind: str, forward: int, backward: int
) -> None:
    """With 2 bytes of a weight and 4 of a gradient: 2 + 2 a gathering, 2 + 4 into the buffer.

    Or 2 + 2, a cast, a division and a copy to pad.
    """
    plain, copied = compute_s(layout), compute_s({**layout, "sharding_copies": kind})
    whole = setup_of(layout).reference
    rate = constants_of(whole.gpu, "tensor").memory_efficiency * whole.gpu.memory_bytes_per_s
    each_s = layout.get("micro_batches", 1) * whole.model.num_parameters / rate
    assert copied["forward"] - plain["forward"] == pytest.approx(forward * each_s, rel=1e-6)
    assert copied["backward"] - plain["backward"] == pytest.approx(backward * each_s, rel=1e-6)
    assert copied["update"] == plain["update"]


def test_gradients_in_the_width_of_weights_are_not_cast() -> None:
    plain, flat = (compute_s({"sharding_copies": kind}, precision="fp32") for kind in ("none", "flat"))
    whole = setup_of({}, precision="fp32").reference
    rate = constants_of(whole.gpu, "ordinary").memory_efficiency * whole.gpu.memory_bytes_per_s
    assert flat["backward"] - plain["backward"] == pytest.approx(16 * whole.model.num_parameters / rate, rel=1e-6)


def test_a_gpu_alone_gathers_nothing_and_copies_nothing() -> None:
    for kind in ("flat", "flat-padded", "parameters"):
        alone = compute_s({"sharding_copies": kind}, num_gpus=1)
        assert alone == compute_s({}, num_gpus=1)


def test_copies_are_waited_for() -> None:
    runs = [
        clustersim.simulate(scenario({"sharding_copies": kind}, compute={"launch": "graphs"}, batch={"per_gpu": 64}))
        for kind in ("none", "flat", "parameters")
    ]
    none_s, flat_s, parameters_s = (run.iteration_s for run in runs)
    assert none_s < parameters_s < flat_s


@pytest.mark.parametrize("layout", [{"tensor": 2}, {"pipeline": 2, "micro_batches": 4, "schedule": "zero-bubble"}])
def test_shortcuts_are_exact_with_them(layout: dict[str, Any], tmp_path: Path) -> None:
    file = scenario({**layout, "sharding_copies": "parameters"}, num_gpus=8)
    file["topology"] = {"kind": "star", "num_hosts": 1, "host": "dgx-a100", "link": "100 Gbit/s", "hop": "1 us"}
    check_folded_is_exact(file)
    check_traces_are_exact(file, tmp_path)


def test_a_flat_tensor_of_gradients_is_made_where_weights_stay_too() -> None:
    plain, flat = (compute_s({"sharding": "zero-2", "sharding_copies": kind}) for kind in ("none", "flat"))
    whole = setup_of({}).reference
    rate = constants_of(whole.gpu, "tensor").memory_efficiency * whole.gpu.memory_bytes_per_s
    assert flat["forward"] == plain["forward"]
    assert flat["backward"] - plain["backward"] == pytest.approx(18 * whole.model.num_parameters / rate, rel=1e-6)


@pytest.mark.parametrize(
    ("sharding", "kind"), [("zero-1", "flat"), ("none", "flat"), ("zero-1", "parameters"), ("zero-2", "parameters")]
)
def test_copies_are_refused_where_nothing_is_shared_out_that_they_are_of(sharding: str, kind: str) -> None:
    with pytest.raises(InputError, match=f"sharding_copies: {kind} applies only with sharding: "):
        setup_of({"sharding": sharding, "sharding_copies": kind})
