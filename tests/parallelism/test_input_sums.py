"""All-reduces of input gradients: one for all matrices that read it, or one for each."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.model import load_model
from clustersim.parallelism.input_sums import with_sum_per_matrix
from clustersim.parallelism.pieces import calls_bytes
from clustersim.parallelism.split import split_model
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast

LLAMA, TOKENS, FEATURES, BLOCKS = "llama-2-7b", 4096, 4096, 32


def test_a_block_all_reduces_five_gradients_instead_of_two() -> None:
    """Queries, keys, values, and two halves of the gated layer; what rows add up forward, and the head, stay."""
    joined = split_model(load_model(LLAMA), 2, 2.0)
    each = with_sum_per_matrix(joined)
    one = TOKENS * FEATURES * 2
    assert calls_bytes(each, "all-reduce") - calls_bytes(joined, "all-reduce") == pytest.approx(BLOCKS * 3 * one)
    sums = {piece.layer.name.rpartition(".")[2]: len(piece.after_backward) for piece in each}
    assert (sums["qkv"], sums["in"], sums["output"], sums["out"], sums["head"]) == (3, 2, 0, 0, 1)
    assert [piece.layer for piece in each] == [piece.layer for piece in joined]


def test_separate_products_have_one_sum_each_or_one_per_matrix() -> None:
    """T5's three matrices are one product of three; a decoder's query is one, and its keys and values two."""
    each = with_sum_per_matrix(split_model(load_model("t5-v1.1-small"), 2, 2.0))
    sums = {piece.layer.name: len(piece.after_backward) for piece in each}
    assert sums["encoder.0.self.qkv"] == 3
    assert sums["decoder.0.across.kv"] == 2


def asked(layout: dict[str, Any], input_sums: str) -> dict[str, Any]:
    return {
        "model": "gpt-2x1024x16-seq512-vocab50304-fused",
        "num_gpus": 2,
        "batch": {"global": 4},
        "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-a100", "link": "25 GB/s", "hop": "1 us"},
        "software": {"name": "plain", "input_sums": input_sums},
        "strategy": {"kind": "all-reduce"},
        "parallelism": layout,
        "memory_check": False,
        "num_iterations": 1,
    }


def test_each_sum_is_waited_for() -> None:
    joined, each = (clustersim.simulate(asked({"tensor": 2}, way)).breakdown_s for way in ("joined", "each"))
    assert each["compute"] == pytest.approx(joined["compute"], rel=1e-9)
    assert each["communication_exposed"] > 1.2 * joined["communication_exposed"]


def test_sequence_parallelism_scatters_once() -> None:
    with pytest.raises(InputError, match="sequence_parallel reduce-scatters once"):
        clustersim.simulate(asked({"tensor": 2, "sequence_parallel": True}, "each"))


def test_whole_layers_have_no_sums() -> None:
    told = forecast(load_scenario(asked({"data": 2}, "each")).points()[0].point).warnings
    assert any("software.input_sums changes nothing" in each for each in told)
