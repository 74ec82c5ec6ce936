"""Muon and other optimizers: FLOP, state, time and messages of an update, by closed forms."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from clustersim.hardware import load_gpu
from clustersim.kernels.compute_time import update_work
from clustersim.kernels.kernel_constants import constants_of, moved_s
from clustersim.kernels.kernel_model import gemm_seconds, plain_gemm, rates_of
from clustersim.kernels.muon import (
    MATRIX_BYTES,
    MatrixTime,
    matrices_of,
    newton_schulz_flop,
    newton_schulz_s,
    shared_out_s,
)
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.model import load_model

H100 = load_gpu("h100")
LLAMA = load_model("llama-2-7b")
MUON = OptimizerSpec(kind="muon")


def test_five_steps_of_three_products_have_their_flop() -> None:
    short, long = 1024, 4096
    assert newton_schulz_flop(short, long) == 5 * (2 * short**2 * long * 2 + 2 * short**3)
    assert newton_schulz_flop(long, short) == newton_schulz_flop(short, long)


def test_a_matrix_takes_the_time_of_its_products_by_the_law_of_all_products() -> None:
    short, long = 4096, 11008
    constants, rates = constants_of(H100, "tensor"), rates_of(H100, "amp-bf16")
    gemms = [
        plain_gemm(*sizes, 1, phase, constants, 2.0)
        for sizes, phase in (
            ((short, short, long), "forward"),
            ((short, short, short), "backward_data"),
            ((short, long, short), "backward_data"),
        )
    ]
    products_s = sum(gemm_seconds(gemms, rates, constants))
    element_wise_s = moved_s(6 * (short**2 + short * long), H100, 2)
    assert newton_schulz_s(long, short, H100) == pytest.approx(5 * (products_s + element_wise_s))
    at_peak_s = newton_schulz_flop(short, long) / H100.flop_per_s["amp-bf16"]
    assert 1 < newton_schulz_s(long, short, H100) / at_peak_s < 2


def test_embeddings_the_head_and_norms_are_left_to_adam() -> None:
    features, between, words, layers = 4096, 11008, 32000, 32
    of_matrices = layers * (4 * features**2 + 3 * features * between)
    others = 2 * words * features + (2 * layers + 1) * features
    assert sum(each.num_parameters for each in matrices_of(LLAMA.layers) if each) == of_matrices
    assert MUON.state_bytes(LLAMA.layers) == 4 * of_matrices + 8 * others
    work = update_work(LLAMA, H100, "amp-bf16", MUON)
    launches = sum(1 for layer in LLAMA.layers if layer.num_parameters)
    assert work.element_wise_s == pytest.approx(moved_s(MATRIX_BYTES * of_matrices + 28 * others, H100, launches))
    shapes = {(3 * features, features): 32, (features, features): 32, (between, features): 64, (features, between): 32}
    matrices_s = sum(count * newton_schulz_s(*shape, H100) for shape, count in shapes.items())
    assert work.seconds == pytest.approx(work.element_wise_s + matrices_s)


def test_each_expert_is_a_matrix() -> None:
    model = load_model("mixtral-8x7b")
    experts = [
        each for each, layer in zip(matrices_of(model.layers), model.layers, strict=True) if layer.op == "experts"
    ]
    assert {each.number for each in experts if each} == {16, 8}
    assert all(each is not None and {each.rows, each.columns} == {4096, 14336} for each in experts)


def test_a_rank_orthogonalizes_whole_matrices() -> None:
    times = [MatrixTime(3.0, 2), MatrixTime(1.0, 3)]
    assert [shared_out_s(times, ranks) for ranks in (1, 2, 3, 64)] == [9.0, 5.0, 3.0, 3.0]
    assert shared_out_s([MatrixTime(2.0, 100_000)], 64) == 2.0 * 1563


def test_an_update_that_is_skipped_orthogonalizes_nothing() -> None:
    assert MUON.model_copy(update={"skipped": True}).work_of(LLAMA.layers, H100).seconds == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("adamw", "adam"), ("adamw-8bit", "adam-8bit"), ("sgd-nesterov", "momentum")]
)
def test_other_names_mean_the_same_rule(name: str, kind: str) -> None:
    assert OptimizerSpec.model_validate({"kind": name}) == OptimizerSpec.model_validate({"kind": kind})


@pytest.mark.parametrize(
    ("kind", "state", "moved"), [("lion", 4, 20), ("adam-8bit", 2 + 8 / 2048, 12 + 2 * (2 + 8 / 2048))]
)
def test_state_and_traffic_of_other_rules(kind: str, state: float, moved: float) -> None:
    optimizer = OptimizerSpec.model_validate({"kind": kind})
    assert optimizer.state_bytes_per_parameter == state
    assert optimizer.state_bytes(LLAMA.layers) == state * LLAMA.num_parameters
    assert optimizer.moved_bytes_per_parameter == moved


def test_passes_are_of_rules_in_fp32() -> None:
    with pytest.raises(ValidationError, match="leave passes out"):
        OptimizerSpec(kind="muon", passes=20)
