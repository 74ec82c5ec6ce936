"""Imported decoders are laid out: tensor parallelism splits their products, and experts and pipelines run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clustersim
from clustersim.interchange.hf_config import import_hf
from clustersim.model import Model
from clustersim.model.layer_schema import KERNEL_OPS
from clustersim.model.write_workload import workload_text
from clustersim.parallelism.split import split_model
from clustersim.scenario import load_scenario

SIZES = {
    "hidden_size": 64, "n_embd": 64, "d_model": 64, "num_hidden_layers": 4, "n_layer": 4, "num_layers": 4,
    "num_attention_heads": 4, "n_head": 4, "num_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
    "intermediate_size": 96, "vocab_size": 128, "ffn_dim": 96, "n_inner": 96, "rotary_dim": 8, "q_lora_rank": 24,
    "kv_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 20, "n_routed_experts": 8,
    "num_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "intermediate_size_mlp": 80,
    "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "interleave_moe_layer_step": 2, "sliding_window": 12,
    "attention_chunk_size": 12, "window_size": 12,
}  # fmt: skip
DECODERS = [
    "bloom", "deepseek_v2", "deepseek_v3", "falcon", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_bigcode", "gpt_neo",
    "gpt_neox", "gpt_oss", "gptj", "llama", "llama4_text", "mistral", "mixtral", "olmo2", "opt", "phi3", "qwen2",
    "qwen2_moe", "qwen3", "qwen3_moe", "starcoder2",
]  # fmt: skip
WITH_EXPERTS = ["deepseek_v2", "deepseek_v3", "gpt_oss", "llama4_text", "mixtral", "qwen2_moe", "qwen3_moe"]


def small(folder: Path, family: str) -> Model:
    """Return a small model of a family, on 32 tokens."""
    path = folder / "config.json"
    own = {"n_head": 4, "num_kv_heads": 2, "new_decoder_architecture": True} if family == "falcon" else {}
    alias = {"n_embd", "n_layer", "n_head"} if family not in ("gpt2", "gptj", "gpt_bigcode", "bloom") else set()
    alias |= {"num_layers", "num_heads"} if family != "gpt_neo" else set()
    sizes = {key: value for key, value in SIZES.items() if key not in alias}
    path.write_text(json.dumps({"model_type": family, **sizes, **own, "use_sliding_window": True}))
    return import_hf(path, 32).model


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("family", DECODERS)
def test_two_gpus_have_half_of_every_product(tmp_path: Path, family: str, sequence_parallel: bool) -> None:
    """But of routers; of matrices into latents if tokens are not split; and of OLMo 2's attention, which is whole.

    Its norms need all queries and all keys, so transformers' plan gathers them and computes attention on every GPU.
    """
    model = small(tmp_path, family)
    pieces = split_model(model, 2, 2.0, sequence_parallel)
    for layer, piece in zip(model.layers, pieces, strict=True):
        if layer.op not in KERNEL_OPS or (family == "olmo2" and layer.op == "matmul"):
            continue
        is_whole = "whole" in layer.shape and not sequence_parallel
        assert piece.layer.flop == layer.flop / (1 if is_whole else 2), layer.name
        parameters = layer.num_parameters if "whole" in layer.shape else -(-layer.num_parameters // 2)
        assert abs(piece.layer.num_parameters - parameters) <= 1, layer.name


@pytest.mark.parametrize("family", DECODERS)
def test_partial_outputs_are_summed_where_a_block_s_branch_ends(tmp_path: Path, family: str) -> None:
    model = small(tmp_path, family)
    pieces = split_model(model, 2, 2.0)
    summed = {piece.layer.name.rpartition(".")[2] for piece in pieces if piece.after_forward}
    assert summed <= {"embedding", "output", "out", "loss", "project_out"}
    gathers = {piece.layer.name.rpartition(".")[2] for piece in pieces if piece.before_forward}
    assert gathers == ({"query_norm", "norm1"} if family == "olmo2" else set())  # and its attention's output


def test_a_latent_attention_gathers_its_latents_where_tokens_are_split(tmp_path: Path) -> None:
    """With sequence parallelism each GPU makes the latents of its tokens, so the small latents are gathered, not x."""
    model = small(tmp_path, "deepseek_v3")
    pieces = {piece.layer.name: piece for piece in split_model(model, 2, 2.0, sequence_parallel=True)}
    name = "layers.0.attention"
    gathered = {each: pieces[f"{name}.{each}"].before_forward for each in ("query_up", "key_value_up")}
    assert [call.bytes_per_sample for call in gathered["query_up"]] == [2.0 * 32 * 24]
    assert [call.bytes_per_sample for call in gathered["key_value_up"]] == [2.0 * 32 * 40]
    assert not pieces[f"{name}.query_down"].calls
    assert not pieces[f"{name}.key_value_down"].calls


@pytest.mark.parametrize("family", WITH_EXPERTS)
def test_a_layout_of_tensor_pipeline_and_expert_runs(tmp_path: Path, family: str) -> None:
    (tmp_path / "model.yaml").write_text(workload_text(small(tmp_path, family)))
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    run = clustersim.simulate(load_scenario(tmp_path / "scenario.yaml"))
    assert run.iteration_s > 0


SCENARIO = """
model: model.yaml
num_gpus: 32
batch: {global: 32}
precision: amp-bf16
topology: {kind: star, num_hosts: 4, host: dgx-h100, link: 400 Gbit/s, hop: 1 us}
parallelism: {tensor: 2, pipeline: 2, expert: 4, context: 2}
"""
