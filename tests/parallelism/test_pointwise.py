"""Recomputation of all layers but matrix products."""

from __future__ import annotations

import pytest

import clustersim
from clustersim.kernels import OptimizerSpec
from clustersim.model import load_model
from clustersim.parallelism.memory import MemoryRules, PartInMemory, kept_by_layer, stage_memory
from clustersim.parallelism.recomputation import block_starts, recomputed
from clustersim.parallelism.split import split_model

SCENARIO = {
    "model": "gpt-2x256x4-seq128-fused",
    "num_gpus": 1,
    "batch": {"global": 4},
    "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-a100", "link": "10 Gbit/s"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "precision": "amp-bf16",
    "num_iterations": 1,
}


def repeated(model: str, recompute: str) -> list[str]:
    layers = load_model(model).layers
    return [layer.name for layer, each in zip(layers, recomputed(layers, recompute), strict=True) if each]


@pytest.mark.parametrize(
    ("recompute", "of_a_block"),
    [
        ("pointwise", "norm1 attention.rotary attention.add norm2 feed_forward.gate"),
        (
            "pointwise+attention",
            "norm1 attention.rotary attention.scores attention.context attention.add norm2 feed_forward.gate",
        ),
    ],
)
def test_all_of_a_block_but_its_products_is_recomputed_up_to_the_last(recompute: str, of_a_block: str) -> None:
    """JAX leaves out what is not read: a block's own output is the next one's input, which is stored."""
    blocks = [name for name in repeated("llama-2-7b", recompute) if name.startswith("h.3.")]
    assert blocks == [f"h.3.{name}" for name in of_a_block.split()]
    assert len(repeated("llama-2-7b", recompute)) == 32 * len(blocks)


@pytest.mark.parametrize("recompute", ["pointwise", "pointwise+attention"])
def test_a_network_without_attention_repeats_nothing(recompute: str) -> None:
    assert repeated("resnet50", recompute) == []


@pytest.mark.parametrize("recompute", ["pointwise", "pointwise+attention"])
def test_an_iteration_takes_longer_by_the_forward_time_of_recomputed_layers(recompute: str) -> None:
    layouts = ({"tensor": 1, "recompute": kind} for kind in ("none", recompute))
    none, more = (clustersim.simulate({**SCENARIO, "parallelism": layout}) for layout in layouts)
    again = set(repeated(str(SCENARIO["model"]), recompute))
    longer = sum(forward_s for name, _, forward_s, *_ in none.layers if name in again)
    assert more.iteration_s - none.iteration_s == pytest.approx(longer, rel=1e-9)


def test_it_needs_less_memory_than_none_and_more_than_full() -> None:
    pieces = split_model(load_model("llama-2-7b"), 1, 2.0)
    layers = [piece.layer for piece in pieces]
    held = [
        stage_memory(
            [PartInMemory(pieces, 1.0, block_starts(layers), recomputed(layers, kind))],
            MemoryRules(1, "amp-bf16", OptimizerSpec(kind="adam")),
        )["activations"]
        for kind in ("none", "pointwise", "pointwise+attention", "full")
    ]
    assert held[0] > held[1] >= held[2] > held[3]


@pytest.mark.parametrize(("recompute", "of_attention"), [("pointwise", 1), ("pointwise+attention", 0)])
def test_outputs_of_all_products_but_the_last_are_stored(recompute: str, of_attention: int) -> None:
    """Query, key and value, attention's where it is kept, its output, gate and up; and fp32's stream between blocks."""
    layers = load_model("llama-2-7b").layers
    starts, features, wide, tokens = block_starts(layers), 4096, 11_008, 4096
    part = PartInMemory(split_model(load_model("llama-2-7b"), 1, 2.0), 1.0, starts, recomputed(layers, recompute))
    kept = kept_by_layer(part, MemoryRules(1, "amp-bf16", OptimizerSpec(kind="adam")))[1:]
    expected = 2 * ((3 + of_attention + 1) * features + 2 * wide) + 4 * features
    assert sum(kept[starts[2] : starts[3]]) == pytest.approx(tokens * expected, rel=1e-9)


def test_recomputing_fused_attention_saves_nothing() -> None:
    layers = load_model("llama-2-7b").layers
    pieces, starts = split_model(load_model("llama-2-7b"), 1, 2.0), block_starts(layers)
    rules = MemoryRules(1, "amp-bf16", OptimizerSpec(kind="adam"))
    every, less = (
        kept_by_layer(PartInMemory(pieces, 1.0, starts, recomputed(layers, kind)), rules)
        for kind in ("none", "attention")
    )
    assert less == every
