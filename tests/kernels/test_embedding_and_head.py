"""Embedding and output head of a language model: FLOP and seconds in closed form, and models without either."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, estimate_layers
from clustersim.kernels.programs.embedding_and_head import with_head_precision, with_one_hot_embedding
from clustersim.model.catalogue import load_model
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup

STRATEGY = {"kind": "all-reduce", "algorithm": "ring"}
GPT, WORDS, TOKENS, FEATURES = "gpt-2x256x4-seq128-vocab512-fused", 512, 128, 256


def seconds(**software: Any) -> dict[str, tuple[float, float]]:
    """Return the seconds of each layer of Llama 2 7B on one H100, forward and backward."""
    scenario = {
        **{"model": "llama-2-7b", "num_gpus": 8, "batch": {"per_gpu": 1}, "precision": "amp-bf16"},
        "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "100 Gbit/s", "hop": "1 us"},
        "software": {"name": "plain", **software},
        "strategy": STRATEGY,
        "memory_check": False,
    }
    whole = Setup(load_scenario(scenario).points()[0].point).reference
    return {time.layer.name: (time.forward_s, time.backward_s) for time in whole.layers}


@pytest.mark.parametrize(("model", "rows"), [(GPT, WORDS + TOKENS), ("llama-2-7b", 32_000), ("bert-base", 31_036)])
def test_a_product_multiplies_a_row_for_each_token_with_all_tables(model: str, rows: int) -> None:
    """2 T R F forward and as many for the tables; no gradient of one-hot rows."""
    plain, product = load_model(model), with_one_hot_embedding(load_model(model))
    layer = next(each for each in product.layers if each.op == "embedding")
    features = layer.num_parameters // rows
    assert layer.num_parameters == rows * features
    assert layer.flop == layer.flop_backward_weights == 2 * layer.output_elements * rows
    assert layer.flop_backward_data == 0
    assert product.flop - plain.flop == layer.flop
    assert product.num_parameters == plain.num_parameters


def test_an_embedding_as_a_product_takes_as_long_as_one_of_logits() -> None:
    """Its two products have the FLOP of two of the head's three."""
    lookup, product = seconds(), seconds(embedding="product")
    assert {name for name in lookup if lookup[name] != product[name]} == {"embedding"}
    assert product["embedding"][0] == pytest.approx(lookup["head"][0], rel=0.15)
    assert product["embedding"][1] == pytest.approx(lookup["head"][1] / 2, rel=0.15)


def test_a_head_in_tf32_takes_about_twice_as_long_and_nothing_else_does() -> None:
    as_others, in_tf32 = seconds(), seconds(head="tf32")
    assert {name for name in as_others if as_others[name] != in_tf32[name]} == {"head"}
    for plain_s, wide_s in zip(as_others["head"], in_tf32["head"], strict=True):
        assert wide_s == pytest.approx(2 * plain_s, rel=0.15)


def test_it_takes_what_the_kernel_model_says_of_tf32() -> None:
    model, gpu = load_model(GPT), load_gpu("h100")
    plain, wide = (estimate_layers(model, gpu, 4, number) for number in ("amp-bf16", "tf32"))
    head = next(number for number, layer in enumerate(model.layers) if layer.name == "head")
    found = with_head_precision("tf32", plain.layers, model, gpu, 4, "cudnn")
    assert found[head] == wide.layers[head]
    assert found[:head] + found[head + 1 :] == plain.layers[:head] + plain.layers[head + 1 :]


@pytest.mark.parametrize(
    ("model", "key", "value"), [("resnet50", "embedding", "product"), ("autoencoder", "head", "tf32")]
)
def test_a_network_without_words_or_logits_is_refused(model: str, key: str, value: str) -> None:
    layers = load_model("resnet50").layers[:-2] if model == "autoencoder" else load_model(model).layers
    network = replace(load_model("resnet50"), name=model, layers=layers)
    with pytest.raises(InputError, match=f"{key}: {value} needs .* {model} has n"):
        with_one_hot_embedding(network) if key == "embedding" else with_head_precision(
            value, (), network, load_gpu("h100"), 1, "cudnn"
        )


@pytest.mark.parametrize(("key", "value"), [("embedding", "product"), ("head", "tf32"), ("casts", "te")])
def test_a_profile_has_its_own_layers(key: str, value: str) -> None:
    with pytest.raises(ValidationError, match=f"drop {key}, or profile"):
        ComputeSpec.model_validate({"profile": "gpt2-small-xeon-2-50ghz", key: value})


def test_gpus_that_split_a_table_multiply_a_part_of_it_each() -> None:
    file = {
        **{"model": GPT, "num_gpus": 4, "batch": {"per_gpu": 4}, "precision": "amp-bf16"},
        "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "100 Gbit/s", "hop": "1 us"},
        "software": {"name": "plain", "embedding": "product"},
        "parallelism": {"tensor": 4},
        "strategy": STRATEGY,
    }
    part = Setup(load_scenario(file).points()[0].point).laid_out.parts[0].pieces[0].layer
    assert part.flop == pytest.approx(2 * TOKENS * (WORDS + TOKENS) * FEATURES / 4)
    assert part.shape["inputs"] == (WORDS + TOKENS) / 4


def test_what_is_refused_stands_where_it_is_written(tmp_path: Path) -> None:
    host = "topology: {kind: star, num_hosts: 1, gpu: v100, link: 10 Gbit/s}\nstrategy: {kind: all-reduce}\n"
    file = tmp_path / "here.yaml"
    file.write_text(
        f"model: resnet50\nnum_gpus: 1\nbatch: {{per_gpu: 8}}\n{host}software: {{name: plain, embedding: product}}\n"
    )
    with pytest.raises(InputError, match=r"here.yaml:6:36: software.embedding: embedding: product needs a model"):
        load_scenario(file)
