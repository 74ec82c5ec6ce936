"""Decoders of the catalogue are those that their configs make, of which the library is asked (`test_library`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.interchange.hf_config import import_hf
from clustersim.model import load_model
from clustersim.model.catalogue.decoders import DECODER_SIZES
from clustersim.scenario import load_scenario
from tests.interchange.hugging_face.cases import CASES


def _qwen(features: int, layers: int, heads: int, width: int, **more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": features, "num_hidden_layers": layers, "num_attention_heads": heads, "head_dim": 128}
    return {"model_type": "qwen3", "num_key_value_heads": 8, "intermediate_size": width, **sizes, **more}


GEMMA = {
    "model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32,
    "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21_504, "sliding_window": 1024,
}  # fmt: skip
LLAMA_3B = {
    "model_type": "llama", "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "vocab_size": 128_256,
    "tie_word_embeddings": True,
}  # fmt: skip
KNOWN = {case.name: case.keys for case in CASES}
CONFIGS = {
    "llama-3.2-1b": KNOWN["Llama 3.2 1B"],
    "llama-3.2-3b": LLAMA_3B,
    "mistral-7b": KNOWN["Mistral 7B v0.1"],
    "qwen3-0.6b": KNOWN["Qwen3 0.6B"],
    "qwen3-4b": _qwen(2560, 36, 32, 9728, tie_word_embeddings=True),
    "qwen3-8b": KNOWN["Qwen3 8B"],
    "qwen3-14b": _qwen(5120, 40, 40, 17_408),
    "qwen3-32b": _qwen(5120, 64, 64, 25_600),
    "qwen3-30b-a3b": KNOWN["Qwen3 30B A3B"],
    "qwen3-235b-a22b": {
        **KNOWN["Qwen3 30B A3B"], "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64,
        "moe_intermediate_size": 1536,
    },
    "deepseek-v2-lite": KNOWN["DeepSeek-V2 Lite"],
    "deepseek-v3": KNOWN["DeepSeek-V3"],
    "deepseek-v3-mtp": {**KNOWN["DeepSeek-V3"], "num_nextn_predict_layers": 1},
    "gpt-oss-20b": KNOWN["gpt-oss 20B"],
    "gpt-oss-120b": KNOWN["gpt-oss 120B"],
    "gemma-3-12b": {
        **GEMMA, "hidden_size": 3840, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 256, "intermediate_size": 15_360,
    },
    "gemma-3-27b": GEMMA,
    "phi-4": KNOWN["Phi-4"],
}  # fmt: skip


def test_every_decoder_has_a_config() -> None:
    assert list(CONFIGS) == list(DECODER_SIZES)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_entry_computes_what_its_config_does(tmp_path: Path, name: str) -> None:
    path, model = tmp_path / "config.json", load_model(name)
    path.write_text(json.dumps(CONFIGS[name]))
    other = import_hf(path, DECODER_SIZES[name].tokens).model
    assert model.num_parameters == other.num_parameters
    assert model.flop == pytest.approx(other.flop, rel=1e-12)
    assert model.flop_backward == pytest.approx(other.flop_backward, rel=1e-12)


def test_a_name_may_give_the_tokens_of_a_sample() -> None:
    short = load_model("qwen3-8b-seq1024")
    assert short.name == "qwen3-8b-seq1024"
    assert short.num_parameters == load_model("qwen3-8b").num_parameters
    assert load_model("gpt-oss-20b-seq4096").name == "gpt-oss-20b"


LAYOUTS = [
    ("qwen3-32b", "{tensor: 8, pipeline: 2, sequence_parallel: true, recompute: full}"),
    ("qwen3-30b-a3b", "{tensor: 2, pipeline: 2, expert: 8, sharding: zero-1}"),
    ("gpt-oss-120b", "{tensor: 4, pipeline: 2, expert: 4, sharding: zero-1}"),
    ("deepseek-v3", "{tensor: 2, pipeline: 4, expert: 4, sharding: zero-1, recompute: full}"),
    ("gemma-3-27b-seq8192", "{tensor: 4, pipeline: 2, context: 2}"),
    ("phi-4", "{tensor: 2, pipeline: 4}"),
]


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_an_entry_runs_in_a_layout_of_tensor_pipeline_and_experts(tmp_path: Path, name: str, layout: str) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO.format(name=name, layout=layout))
    run = clustersim.simulate(load_scenario(path))
    assert 0.1 < run.iteration_s < 1e3


SCENARIO = """
model: {name}
num_gpus: 64
batch: {{global: 64}}
precision: amp-bf16
topology: {{kind: star, num_hosts: 8, host: dgx-h100, link: 400 Gbit/s, hop: 1 us}}
parallelism: {layout}
memory_check: false
"""
