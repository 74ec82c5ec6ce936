"""Masks that processes make on their hosts: pages of new memory, before a micro-batch goes forward at either end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.model import Layer, load_model
from clustersim.parallelism.masks import FRESH_BYTES_PER_S, mask_seconds
from tests.simulate.shortcut_checks import check_is_exact, check_traces_are_exact
from tests.simulate.test_sharding_copies import scenario, setup_of

LONG = "gpt-4x256x4-seq4096-vocab512-fused"
BLOCKING: dict[str, Any] = {
    "model": LONG,
    "compute": {"launch": "blocking"},
    "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False, "copies": "none"},
}
STAGES = {"sharding": None, "pipeline": 4, "micro_batches": 4, "messages": "awaited", "data": 1}


def num_masks(layout: dict[str, Any], stage: int = 0) -> float:
    """Return how many masks a stage makes in an iteration, each in the time of one."""
    with_s, without_s = (
        setup_of({**layout, "masks": kind}, **BLOCKING).laid_out.plans[stage].program.phase_s()["forward"]
        for kind in ("host", "none")
    )
    return round((with_s - without_s) / mask_seconds(load_model(LONG).layers), 9)


def test_two_tensors_of_4_bytes_a_number_are_new_and_that_of_bytes_is_not() -> None:
    """16 MiB of bytes are below what malloc keeps; with 8,192 tokens they are above it."""
    assert mask_seconds(load_model("llama-2-7b").layers) == pytest.approx(8 * 4096**2 / FRESH_BYTES_PER_S)
    longer = load_model("gpt-1x256x4-seq8192-vocab512").layers
    assert mask_seconds(longer) == pytest.approx(9 * 8192**2 / FRESH_BYTES_PER_S)


@pytest.mark.parametrize("model", ["gpt-2x256x4-seq2048-vocab512", "resnet50"])
def test_short_sequences_and_models_without_attention_cost_nothing(model: str) -> None:
    assert mask_seconds(load_model(model).layers) == 0


def test_products_without_a_shape_have_no_tokens_that_are_known() -> None:
    assert mask_seconds([Layer("scores", "matmul", 1e9, 1e9, 0.0, 0, 100.0, 100.0)]) == 0


def test_both_ends_of_a_pipeline_make_one_for_each_micro_batch_and_no_other_stage_does() -> None:
    assert [num_masks(STAGES, stage) for stage in range(4)] == [4, 0, 0, 4]


def test_one_stage_makes_one_for_each_micro_batch_whatever_its_size() -> None:
    assert num_masks({"sharding": "zero-1", "micro_batches": 2}) == 2
    assert num_masks({"sharding": "zero-1"}) == 1


def test_gpus_wait_for_them() -> None:
    """Two stages that wait for each other do so once for each micro-batch, and once for the second one's first."""
    layout = {**STAGES, "pipeline": 2}
    with_s, without_s = (
        clustersim.simulate(scenario({**layout, "masks": kind}, num_gpus=2, **BLOCKING)).iteration_s
        for kind in ("host", "none")
    )
    assert with_s - without_s == pytest.approx(5 * mask_seconds(load_model(LONG).layers), rel=0.01)


def test_shortcuts_and_traces_are_exact_with_them(tmp_path: Path) -> None:
    """Traces know nothing of messages that two ranks wait for, and so are compared without stages."""
    check_is_exact(scenario({**STAGES, "masks": "host", "pipeline": 2, "data": 2, "sharding": "zero-1"}, **BLOCKING))
    check_traces_are_exact(scenario({"sharding": "zero-1", "micro_batches": 2, "masks": "host"}, **BLOCKING), tmp_path)
