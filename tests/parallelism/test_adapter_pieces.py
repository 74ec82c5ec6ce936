"""Adapters beside split products: parameters, FLOP and collectives of each GPU."""

from __future__ import annotations

import pytest

from clustersim.kernels.adapters import Lora, with_adapters
from clustersim.model import load_model
from clustersim.parallelism.split import split_model

TOKENS, FEATURES, BETWEEN, RANK, BYTES = 512, 4096, 11_008, 8, 2.0
WHOLE = load_model("llama-2-7b-seq512")
MODEL = with_adapters(WHOLE, Lora(rank=RANK, targets=("q_proj", "v_proj", "down_proj")), 2.0)


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_a_product_by_columns_has_all_of_a_and_columns_of_b_and_one_by_rows_the_other_way(
    sequence_parallel: bool,
) -> None:
    pieces = {piece.layer.name: piece for piece in split_model(MODEL, 4, BYTES, sequence_parallel)}
    into, out = (pieces[f"h.1.attention.qkv.q_proj.lora_{each}"] for each in "AB")
    assert into.layer.num_parameters == FEATURES * RANK
    assert out.layer.num_parameters == FEATURES * RANK / 4
    assert [(call.op, call.bytes_per_sample) for call in out.calls] == [("all-reduce", TOKENS * RANK * BYTES)]
    assert into.calls == ()
    into, out = (pieces[f"h.1.feed_forward.out.down_proj.lora_{each}"] for each in "AB")
    assert into.layer.num_parameters == BETWEEN * RANK / 4
    assert out.layer.num_parameters == FEATURES * RANK
    ops = ["reduce-scatter", "all-gather"] if sequence_parallel else ["all-reduce"]
    assert [(call.op, call.bytes_per_sample) for call in into.calls] == [(op, TOKENS * RANK * BYTES) for op in ops]
    assert out.layer.shape["rows"] == (TOKENS / 4 if sequence_parallel else TOKENS)


def test_the_other_layers_are_split_as_without_adapters() -> None:
    plain = split_model(WHOLE, 4, BYTES)
    adapted = [piece for piece in split_model(MODEL, 4, BYTES) if not piece.layer.adapts]
    differ = [own.layer.name for own, other in zip(adapted, plain, strict=True) if own.calls != other.calls]
    assert differ == ["h.0.attention.qkv"]  # no gradient of its input
    shapes = [[dict(piece.layer.shape) for piece in pieces] for pieces in (plain, adapted)]
    assert shapes[0] == shapes[1]
    split = sum(piece.layer.num_parameters for piece in plain)
    assert sum(piece.layer.frozen_bytes or 0.0 for piece in adapted) == pytest.approx(2 * split)


def test_one_gpu_has_every_layer_unchanged() -> None:
    assert [piece.layer for piece in split_model(MODEL, 1, BYTES)] == list(MODEL.layers)
