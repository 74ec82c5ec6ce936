"""The memory of one rank of a layout."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.kernels import OptimizerSpec, memory_per_gpu
from clustersim.model import Layer, Model, load_model
from clustersim.model.catalogue.gpt import gpt
from clustersim.parallelism.memory import (
    MemoryRules,
    PartInMemory,
    host_memory,
    part_activations,
    stage_memory,
)
from clustersim.parallelism.recomputation import block_starts, recomputed
from clustersim.parallelism.split import Piece, split_model

ADAM = OptimizerSpec(kind="adam")
TOKENS, FEATURES, HEADS = 64, 128, 4
SBH = TOKENS * FEATURES
SCORES = 5 * HEADS * TOKENS / FEATURES
"""Korthikanti et al.'s 5 a s / h."""


def rules(precision: str = "fp16", batch: int = 1, **others: Any) -> MemoryRules:
    return MemoryRules(batch, precision, ADAM, **others)


def part_of(pieces: tuple[Piece, ...], recompute: str | None = None, in_flight: float = 1.0) -> PartInMemory:
    layers = [piece.layer for piece in pieces]
    return PartInMemory(pieces, in_flight, block_starts(layers), recomputed(layers, recompute))


def whole(model: Model) -> PartInMemory:
    return part_of(split_model(model, 1, 2.0))


def transformer_layers(degree: int, recompute: str | None, sequence_parallel: bool, num: int = 3) -> PartInMemory:
    """Return the layers 1 .. num of a GPT, without what comes before and after them."""
    model = gpt("g", "G", layers=num + 1, features=FEATURES, heads=HEADS, tokens=TOKENS)
    pieces = split_model(model, degree, 2.0, sequence_parallel)
    first = next(number for number, layer in enumerate(model.layers) if layer.name == "h.1.norm1")
    end = next(number for number, layer in enumerate(model.layers) if layer.name == "norm")
    starts, again = block_starts(model.layers), recomputed(model.layers, recompute)
    blocks = [start - first for start in starts if first <= start < end]
    return PartInMemory(pieces[first:end], 1.0, blocks, again[first:end])


def kept_a_layer(degree: int = 1, recompute: str | None = None, sequence_parallel: bool = False) -> float:
    """Return the bytes of activations that one more transformer layer keeps, over s b h."""
    few, more = (transformer_layers(degree, recompute, sequence_parallel, num) for num in (3, 4))
    held = [stage_memory([part], rules())["activations"] for part in (few, more)]
    return (held[1] - held[0]) / SBH


@pytest.mark.parametrize("precision", ["fp32", "fp16", "amp-fp16", "amp-bf16"])
@pytest.mark.parametrize("name", ["resnet50", "gpt2-small", "vgg16", "lstm-lm"])
def test_one_gpu_needs_the_memory_of_plain_training(name: str, precision: str) -> None:
    model = load_model(name)
    held = stage_memory([whole(model)], rules(precision, batch=4))
    assert held == pytest.approx(memory_per_gpu(model, 4, precision, ADAM))


def test_a_transformer_layer_keeps_equation_1() -> None:
    assert kept_a_layer() == pytest.approx(34 + SCORES)


@pytest.mark.parametrize("degree", [2, 4])
def test_tensor_parallelism_keeps_equation_2(degree: int) -> None:
    """Arxiv:2205.05198, equation 2: s b h (10 + 24 / t + 5 a s / h t)."""
    assert kept_a_layer(degree) == pytest.approx(10 + 24 / degree + SCORES / degree)


@pytest.mark.parametrize("degree", [2, 4])
def test_sequence_parallelism_keeps_equation_4(degree: int) -> None:
    """Arxiv:2205.05198, equation 4: s b h / t (34 + 5 a s / h)."""
    assert kept_a_layer(degree, sequence_parallel=True) == pytest.approx((34 + SCORES) / degree)


@pytest.mark.parametrize("degree", [1, 4])
def test_selective_recomputation_keeps_equation_6(degree: int) -> None:
    """Arxiv:2205.05198, equation 6: s b h 34 / t."""
    assert kept_a_layer(degree, "selective", sequence_parallel=degree > 1) == pytest.approx(34 / degree)


def test_full_recomputation_keeps_the_input_of_each_layer() -> None:
    """Arxiv:2205.05198, table 2: 2 s b h."""
    assert kept_a_layer(recompute="full") == pytest.approx(2)
    assert kept_a_layer(4, "full", sequence_parallel=True) == pytest.approx(2 / 4)


def test_full_recomputation_recomputes_one_block_at_a_time() -> None:
    kept, again = (part_activations(transformer_layers(1, each, False, 8), rules()) for each in (None, "full"))
    assert kept.kept - again.kept == pytest.approx(8 * (34 + SCORES - 2) * SBH)
    assert (kept.recomputed, again.recomputed) == (0, pytest.approx((34 + SCORES - 2) * SBH))


def test_no_block_is_recomputed_during_the_loss() -> None:
    """With a large vocabulary the peak is there: 50,257 logits a token in fp32, read and written."""
    model = gpt("g", "G", layers=8, features=FEATURES, heads=HEADS, tokens=TOKENS)
    pieces = split_model(model, 1, 2.0)
    kept, again = (part_activations(part_of(pieces, each), rules()) for each in (None, "full"))
    assert again.recomputed + again.passing == pytest.approx(kept.passing) == pytest.approx(2 * 4 * 50_257 * TOKENS)


@given(in_flight=st.integers(1, 32))
def test_each_micro_batch_in_flight_keeps_its_activations(in_flight: int) -> None:
    part = transformer_layers(1, None, False)
    one, two, many = (
        stage_memory([replace(part, in_flight=float(each))], rules())["activations"] for each in (1, 2, in_flight)
    )
    assert many == pytest.approx(one + (in_flight - 1) * (two - one))


def test_chunks_of_a_stage_add_up() -> None:
    part = transformer_layers(1, None, False)
    one, two = (stage_memory([part] * num, rules()) for num in (1, 2))
    for name in ("weights", "gradients", "optimizer"):
        assert two[name] == 2 * one[name]


ZERO = Model("m", "m", (Layer("fc", "fully-connected", 1.0, 1.0, 1.0, 7_500_000_000, 0.0, 0.0),))


@pytest.mark.parametrize(("sharding", "gigabytes"), [(None, 120), ("zero-1", 31.4), ("zero-2", 16.6), ("zero-3", 1.9)])
def test_zero_needs_the_memory_of_its_first_figure(sharding: str | None, gigabytes: float) -> None:
    """Arxiv:1910.02054, figure 1: 7.5 G parameters on 64 GPUs in 16 bits with Adam."""
    held = stage_memory([whole(ZERO)], rules(sharding=sharding, share=1 / 64))
    states = held["weights"] + held["gradients"] + held["optimizer"]
    assert states / 1e9 == pytest.approx(gigabytes, abs=0.06)


def test_blocks_in_use_and_gradients_of_the_block_before_are_whole() -> None:
    part = transformer_layers(1, None, False)
    layer = 12 * FEATURES**2 + 13 * FEATURES
    for sharding, num_bytes in (("zero-2", 2 * 2), ("zero-3", 2 * 2 + 2 * 2)):
        held = stage_memory([part], rules(sharding=sharding, share=1 / 8))
        assert held["blocks in use"] == pytest.approx(num_bytes * layer * 7 / 8)
    assert "blocks in use" not in stage_memory([part], rules(sharding="zero-1", share=1 / 8))


@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "amp-bf16"])
def test_a_single_replica_has_nothing_to_shard(sharding: str, precision: str) -> None:
    part = transformer_layers(1, None, False)
    plain, alone = (stage_memory([part], rules(precision, sharding=each)) for each in (None, sharding))
    names = ("weights", "gradients", "optimizer", "activations")
    if precision == "amp-bf16":  # all layers have 16-bit weights beside the shared fp32 ones, not products alone
        norms = 3 * 4 * FEATURES
        assert alone["weights"] == plain["weights"] + 2 * norms
        names = names[1:]
    assert [alone[name] for name in names] == [plain[name] for name in names]


def test_under_autocast_the_fp32_weights_are_sharded_and_their_copies_are_not() -> None:
    part = transformer_layers(1, None, False)
    num = sum(piece.layer.num_parameters for piece in part.pieces)
    held = stage_memory([part], rules("amp-bf16", sharding="zero-1", share=1 / 4))
    assert held["weights"] + held["weight copies"] == pytest.approx(2 * num + 4 * num / 4)
    assert held["optimizer"] == pytest.approx(8 * num / 4)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "amp-bf16"])
def test_the_host_stores_what_is_offloaded_and_fp32_weights_that_layers_read(precision: str) -> None:
    part = transformer_layers(1, None, False)
    num = sum(piece.layer.num_parameters for piece in part.pieces)
    at_home, away = (rules(precision, sharding="zero-1", share=1 / 4, offload=each) for each in (False, True))
    on_gpu, off_gpu = (stage_memory([part], each) for each in (at_home, away))
    lost = {name: on_gpu[name] - off_gpu[name] for name in ("weights", "optimizer")}
    gained = host_memory([part], away)
    assert gained["weights"] == pytest.approx(4 * num / 4)
    assert lost["optimizer"] == pytest.approx(gained["optimizer"]) == pytest.approx(8 * num / 4)
    assert lost["weights"] == pytest.approx(0 if precision == "fp32" else gained["weights"])
    assert host_memory([part], at_home) == {}


@pytest.mark.parametrize("sharding", [None, "zero-2"])
def test_two_pieces_of_gradients_that_are_copied_out_early_are_on_the_gpu_and_all_in_the_host(
    sharding: str | None,
) -> None:
    part = transformer_layers(2, None, False)
    num = sum(piece.layer.num_parameters for piece in part.pieces)
    copies = 4 if sharding else 1
    stays = rules("fp16", sharding=sharding, share=1 / copies, offload=True)
    leaves = rules("fp16", sharding=sharding, share=1 / copies, offload=True, most_gradients=num / 10)
    assert stage_memory([part], stays)["gradients"] == pytest.approx(2 * num / copies)
    assert stage_memory([part], leaves)["gradients"] == pytest.approx(2 * num / 10)
    assert host_memory([part], leaves)["gradients"] == pytest.approx(2 * num / copies)


def test_a_tied_matrix_on_another_stage_than_its_embedding_is_stored_twice() -> None:
    model = load_model("gpt2-small")
    pieces = split_model(model, 1, 4.0)
    first, last = part_of(pieces[:2]), part_of(pieces[-2:])
    apart = [stage_memory([part], rules("fp32"))["weights"] for part in (first, last)]
    assert apart == [4 * (50257 + 1024) * 768, 4 * 50257 * 768]
    assert stage_memory([first, last], rules("fp32"))["weights"] == 4 * (50257 + 1024) * 768


def test_a_gathered_input_of_a_convolution_is_kept_whole() -> None:
    pieces = split_model(load_model("vgg16"), 2, 4.0)
    names = [piece.layer.name for piece in pieces]
    at = names.index("conv4_2")
    pair = pieces[at - 1 : at + 1]  # relu4_1, conv4_2
    held = stage_memory([part_of(pair)], MemoryRules(1, "fp32", ADAM))["activations"]
    maps = 512 * 28 * 28
    comes_in, written, gathered, gradients = maps / 2, maps / 2, maps, 2 * maps
    assert held == 4 * (comes_in + written + gathered + gradients)


def test_blocks_of_a_transformer_are_its_layers() -> None:
    layers = load_model("bert-base").layers
    starts = block_starts(layers)
    names = [{layer.name for layer in layers[start:end]} for start, end in itertools.pairwise(starts)]
    assert [f"layer.{number}.attention.qkv" in block for number, block in enumerate(names[1:])] == [True] * 12
    assert all(f"layer.{number}.feed_forward.add" in block for number, block in enumerate(names[1:]))


def test_blocks_of_a_residual_network_end_with_its_additions() -> None:
    layers = load_model("resnet50").layers
    starts = block_starts(layers)
    assert [layers[start - 1].name for start in starts[2:5]] == ["layer1.0.relu", "layer1.1.relu", "layer1.2.relu"]


def test_a_chain_has_about_as_many_blocks_as_a_block_has_layers() -> None:
    layers = load_model("vgg16").layers  # 16 with parameters
    starts = block_starts(layers)
    assert len(starts) == 4
    assert all(layers[start].num_parameters for start in starts)
    assert block_starts([]) == []


def test_full_recomputation_repeats_the_layers_of_a_transformer_only() -> None:
    layers = load_model("gpt2-small").layers
    again = {layer.name for layer, each in zip(layers, recomputed(layers, "full"), strict=True) if each}
    assert again == {"drop", *(layer.name for layer in layers if layer.name.startswith("h."))}


def test_full_recomputation_of_another_network_repeats_all_but_the_last_block() -> None:
    layers = load_model("resnet50").layers
    again = recomputed(layers, "full")
    last = block_starts(layers)[-1]
    assert all(again[:last])
    assert not any(again[last:])


@pytest.mark.parametrize(
    ("name", "repeated"),
    [("gpt2-small", {"scores", "softmax", "drop_weights", "context"}), ("llama-2-7b", {"scores", "context"})],
)
def test_recomputation_of_attention_repeats_its_products_and_the_layers_between(name: str, repeated: set[str]) -> None:
    """As `selective` does where attention stores scores, and where it is fused all the same."""
    layers = load_model(name).layers
    again = [layer.name for layer, each in zip(layers, recomputed(layers, "attention"), strict=True) if each]
    blocks = len({layer.name.split(".")[1] for layer in layers if layer.name.startswith("h.")})
    assert len(again) == blocks * len(repeated)
    assert {name.split(".")[-1] for name in again} == repeated


def test_selective_recomputation_repeats_the_pairwise_layers_of_attention() -> None:
    layers = load_model("gpt2-small").layers
    again = [layer.name for layer, each in zip(layers, recomputed(layers, "selective"), strict=True) if each]
    assert again[:4] == [f"h.0.attention.{name}" for name in ("scores", "softmax", "drop_weights", "context")]
    assert len(again) == 4 * 12
    assert not any(recomputed(layers, None))
    assert not any(recomputed(layers, "none"))
