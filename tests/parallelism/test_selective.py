"""The activations that torchtitan stores if it recomputes every second product."""

from __future__ import annotations

import pytest

from clustersim.kernels import OptimizerSpec
from clustersim.model import load_model
from clustersim.parallelism.memory import MemoryRules, PartInMemory, kept_by_layer
from clustersim.parallelism.recomputation import block_starts, recomputed
from clustersim.parallelism.split import split_model

ADAM = OptimizerSpec(kind="adam")
FEATURES, WIDE, KEYS, TOKENS = 4096, 14_336, 1024, 8192


@pytest.mark.parametrize("casts_all", [True, False])
def test_a_llama_block_stores_its_input_attention_and_every_second_product(casts_all: bool) -> None:
    """Of query, key, value, output, gate, up and down of Llama 3.1 8B, torchtitan keeps the outputs of the first,
    third, fifth and seventh, and attention's. Here query, key and value are there as attention reads them, and
    attention is read by its output: query + key instead of query, the rest alike. The stream between blocks, which the
    next block's first norm reads, has 16 bits where the model is cast as a whole.
    """
    layers = load_model("llama-3.1-8b").layers
    starts, again = block_starts(layers), recomputed(layers, "selective")
    part = PartInMemory(split_model(load_model("llama-3.1-8b"), 1, 2.0), 1.0, starts, again)
    kept = kept_by_layer(part, MemoryRules(1, "amp-bf16", ADAM, casts_all=casts_all))[1:]
    second = sum(kept[starts[2] : starts[3]])
    stream = FEATURES * (2 if casts_all else 4)
    expected = 2 * (FEATURES + 2 * KEYS) + 2 * FEATURES + 2 * WIDE + 2 * FEATURES + stream
    assert second == pytest.approx(TOKENS * expected, rel=1e-9)


def test_megatrons_selective_recomputation_stores_the_inputs_of_its_products() -> None:
    """Attention there is scores, softmax and context alone, made again from query, key and value, which are kept."""
    layers = load_model("gpt2-small").layers
    again = recomputed(layers, "selective")
    part = PartInMemory(split_model(load_model("gpt2-small"), 1, 2.0), 1.0, block_starts(layers), again)
    kept = dict(
        zip((layer.name for layer in layers), kept_by_layer(part, MemoryRules(1, "fp16", ADAM))[1:], strict=True)
    )
    assert kept["h.1.attention.context"] == 2 * 768 * 1024
    assert kept["h.1.attention.softmax"] == 0
