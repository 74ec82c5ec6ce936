"""Cost of TransformerEngine's casts to FP8 for a layer, in closed form, and weights that are cast once."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, estimate_layers
from clustersim.kernels.kernel_constants import constants_of
from clustersim.model.casts import TORCHAO, Casts, CastsKind
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup
from tests.kernels.test_fp8 import BATCH, INPUTS, OUTPUTS, ROWS, one_layer

READ, WRITTEN, WEIGHTS = float(BATCH * ROWS * INPUTS), float(BATCH * ROWS * OUTPUTS), float(INPUTS * OUTPUTS)


@pytest.mark.parametrize(("kind", "each", "kernels"), [("te", 4, 1), ("te-cached", 4, 1), ("te-current-cached", 6, 2)])
def test_an_element_is_read_once_and_written_twice_and_an_input_cast_forward_alone(
    kind: CastsKind, each: float, kernels: float
) -> None:
    """Beside torchao's 5 bytes of input and weights, of gradient and weights, and of the input again."""
    gpu, model = load_gpu("h100"), one_layer()
    torchao, te = (
        estimate_layers(model, gpu, BATCH, "amp-fp8", casts=casts).layers[0] for casts in (TORCHAO, Casts(kind))
    )
    rate = constants_of(gpu, "tensor").shape.memory_efficiency * gpu.memory_bytes_per_s
    for phase, more, fewer in (
        ("forward_s", (5 - each) * (READ + WEIGHTS), (2 - kernels) * 2),
        ("backward_data_s", 5 * (WRITTEN + WEIGHTS) - each * WRITTEN, 4 - kernels),
        ("backward_weights_s", 5 * READ, 2),
    ):
        saved_s = getattr(torchao, phase) - getattr(te, phase)
        assert saved_s == pytest.approx(more / rate + fewer * gpu.launch_s, rel=1e-9)


@pytest.mark.parametrize(("kind", "is_once"), [("torchao", False), ("te", False), ("te-cached", True)])
def test_weights_that_are_cached_are_cast_once_for_all_passes(kind: CastsKind, is_once: bool) -> None:
    alone, of_many = (Casts(kind, num).elements(READ, WRITTEN, WEIGHTS, "forward")[0] for num in (1, 8))
    assert alone == READ + WEIGHTS
    assert 8 * of_many == pytest.approx(8 * READ + (1 if is_once else 8) * WEIGHTS)


def forward_s(**software: Any) -> dict[int, float]:
    """Return the seconds forward of an update of Llama 2 7B in 1 and 4 micro-batches of one sequence."""
    found = {}
    for micro_batches in (1, 4):
        scenario = {
            **{"model": "llama-2-7b", "num_gpus": 8, "batch": {"per_gpu": micro_batches}, "precision": "amp-fp8"},
            "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "100 Gbit/s", "hop": "1 us"},
            "software": {"name": "plain", **software},
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
            "parallelism": {"sharding": "zero-1", "micro_batches": micro_batches},
            "compute": {"variability": 0},
            "memory_check": False,
        }
        plan = Setup(load_scenario(scenario).points()[0].point).laid_out.plans[0]
        found[micro_batches] = plan.program.phase_s()["forward"]
    return found


def test_an_update_of_micro_batches_casts_weights_as_often_as_its_kind_says() -> None:
    """4 bytes of 6.48 billion parameters in linear layers, and a kernel each, are all that four passes have once."""
    anew, once = forward_s(casts="te"), forward_s(casts="te-cached")
    assert once[1] == anew[1]
    gpu = load_gpu("h100")
    rate = constants_of(gpu, "tensor").shape.memory_efficiency * gpu.memory_bytes_per_s
    weights = 32 * (4 * 4096**2 + 3 * 4096 * 11_008)
    kernels = 32 * 4 * 3 * gpu.launch_s
    assert anew[4] - once[4] == pytest.approx(3 * 4 * weights / rate + kernels, rel=0.01)
    assert anew[4] == pytest.approx(4 * anew[1], rel=1e-9)
    assert forward_s()[4] == pytest.approx(4 * forward_s()[1], rel=1e-9)


def test_products_in_16_bits_are_not_cast() -> None:
    gpu, model = load_gpu("h100"), one_layer()
    plain, cast = (estimate_layers(model, gpu, BATCH, "amp-bf16", casts=casts) for casts in (TORCHAO, Casts("te", 4)))
    assert plain.layers == cast.layers


@pytest.mark.parametrize("kind", ["torchao", "te", "te-cached"])
def test_a_published_rate_is_met_with_any_casts(kind: CastsKind) -> None:
    single = {"samples_per_s": 1000, "batch": 8, "batches_per_update": 4, "source": "made up"}
    scenario = {
        "model": "gpt-2x256x4-seq1024-vocab512", "num_gpus": 1, "batch": {"per_gpu": 32}, "precision": "amp-fp8",
        "topology": {"kind": "star", "num_hosts": 1, "gpu": "h100", "link": "100 Gbit/s", "hop": "1 us"},
        "software": {"name": "plain", "casts": kind},
        "strategy": {"kind": "all-reduce"}, "parallelism": {"micro_batches": 4}, "memory_check": False,
        "compute": {"single_gpu": single},
    }  # fmt: skip
    assert clustersim.simulate(scenario).samples_per_s == pytest.approx(1000, rel=1e-9)


def test_a_published_rate_is_of_all_layers() -> None:
    single = {"samples_per_s": 1000, "batch": 8, "source": "made up"}
    with pytest.raises(ValueError, match="drop head, or single_gpu"):
        ComputeSpec(head="tf32", single_gpu=single)
