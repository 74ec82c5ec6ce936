"""Configs of published checkpoints, one or more a family: their sizes, and the class's defaults otherwise."""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """A config, the tokens of a sample, and the attention of the library's model: `eager` where it has no other.

    `flop_keys` are set for the comparison of FLOP only, where the library's class computes more than the model needs.
    """

    name: str
    keys: dict[str, Any]
    tokens: int = 128
    attention: str = "sdpa"
    flop_keys: dict[str, Any] = {}  # noqa: RUF012


def _config(
    model_type: str, features: int, layers: int, heads: int, width: int, words: int, **more: Any
) -> dict[str, Any]:
    """Return the keys that most classes have."""
    sizes = {"hidden_size": features, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {"model_type": model_type, **sizes, "intermediate_size": width, "vocab_size": words, **more}


def _causal(prefix: str) -> list[str]:
    return [f"{prefix}ForCausalLM"]


CASES = [
    Case("Llama 3.1 8B", _config("llama", 4096, 32, 32, 14_336, 128_256, num_key_value_heads=8)),
    Case(
        "Llama 3.2 1B",
        _config("llama", 2048, 16, 32, 8192, 128_256, num_key_value_heads=8, head_dim=64, tie_word_embeddings=True),
    ),
    Case("Mistral 7B v0.1", {"model_type": "mistral"}),
    Case("Mixtral 8x7B", {"model_type": "mixtral"}),
    Case("Qwen2 7B", _config("qwen2", 3584, 28, 28, 18_944, 152_064, num_key_value_heads=4)),
    Case("Qwen3 8B", _config("qwen3", 4096, 36, 32, 12_288, 151_936, num_key_value_heads=8)),
    Case("Qwen3 0.6B", _config("qwen3", 1024, 28, 16, 3072, 151_936, num_key_value_heads=8, tie_word_embeddings=True)),
    Case("Qwen1.5 MoE A2.7B", {"model_type": "qwen2_moe"}),
    Case("Qwen3 30B A3B", _config("qwen3_moe", 2048, 48, 32, 6144, 151_936, num_key_value_heads=4, head_dim=128)),
    Case(
        "DeepSeek-V2 Lite",
        _config(
            "deepseek_v2",
            2048,
            27,
            16,
            10_944,
            102_400,
            num_experts_per_tok=6,
            q_lora_rank=None,
            moe_intermediate_size=1408,
            first_k_dense_replace=1,
        ),
    ),
    Case("DeepSeek-V3", {"model_type": "deepseek_v3"}),
    Case("gpt-oss 20B", {"model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32}, attention="eager"),
    Case("gpt-oss 120B", {"model_type": "gpt_oss"}, attention="eager"),
    Case("Gemma 7B", {"model_type": "gemma"}),
    Case("Gemma 2 9B", _config("gemma2", 3584, 42, 16, 14_336, 256_000, num_key_value_heads=8), attention="eager"),
    Case(
        "Gemma 3 1B",
        _config(
            "gemma3_text",
            1152,
            26,
            4,
            6912,
            262_144,
            num_key_value_heads=1,
            sliding_window=512,
            architectures=_causal("Gemma3"),
        ),
    ),
    Case("Phi-3 mini", {"model_type": "phi3"}),
    Case("Phi-4", _config("phi3", 5120, 40, 40, 17_920, 100_352, num_key_value_heads=10)),
    Case(
        "Llama 4 Scout, its text model",
        {"model_type": "llama4_text", "architectures": _causal("Llama4")},
        flop_keys={"num_experts_per_tok": 16},
    ),
    Case("OLMo 2 7B", _config("olmo2", 4096, 32, 32, 11_008, 100_352)),
    Case("Falcon 7B", {"model_type": "falcon"}),
    Case(
        "Falcon 40B",
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "new_decoder_architecture": True,
        },
    ),
    Case(
        "OPT 350M",
        {
            "model_type": "opt",
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "ffn_dim": 4096,
            "word_embed_proj_dim": 512,
            "do_layer_norm_before": False,
        },
    ),
    Case(
        "OPT 1.3B",
        {
            "model_type": "opt",
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "ffn_dim": 8192,
        },
    ),
    Case("BLOOM 560M", {"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "n_head": 16}, attention="eager"),
    Case("GPT-J 6B", {"model_type": "gptj"}),
    Case("GPT-Neo 1.3B", {"model_type": "gpt_neo"}, attention="eager"),
    Case("GPT-NeoX 20B", {"model_type": "gpt_neox"}),
    Case("GPT-2", {"model_type": "gpt2"}),
    Case("StarCoder2 3B", {"model_type": "starcoder2", "sliding_window": 4096}),
    Case(
        "SantaCoder", {"model_type": "gpt_bigcode", "n_embd": 2048, "n_layer": 24, "n_head": 16, "vocab_size": 49_280}
    ),
    Case("BERT base", {"model_type": "bert", "architectures": ["BertForMaskedLM"]}),
    Case(
        "RoBERTa base",
        {
            "model_type": "roberta",
            "architectures": ["RobertaForMaskedLM"],
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
        },
    ),
]
"""Cases of `import hf` against transformers."""

SMALL = {
    "llama": {"num_hidden_layers": 2},
    "mistral": {"sliding_window": 12, "num_key_value_heads": 2},
    "mixtral": {"sliding_window": 12, "num_key_value_heads": 2},
    "qwen2": {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 1, "num_key_value_heads": 2},
    "qwen3": {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 1, "num_key_value_heads": 2},
    "qwen2_moe": {"use_sliding_window": True, "sliding_window": 12, "num_key_value_heads": 2},
    "qwen3_moe": {"use_sliding_window": True, "sliding_window": 12, "num_key_value_heads": 2},
    "phi3": {"sliding_window": 12, "num_key_value_heads": 2},
    "starcoder2": {"sliding_window": 12, "num_key_value_heads": 2},
    "gpt_oss": {"sliding_window": 12, "num_key_value_heads": 2},
    "gemma2": {"sliding_window": 12, "num_key_value_heads": 2},
    "gemma3_text": {
        "sliding_window": 12, "sliding_window_pattern": 3, "num_key_value_heads": 2,
        "architectures": ["Gemma3ForCausalLM"],
    },
    "llama4_text": {
        "attention_chunk_size": 12, "no_rope_layer_interval": 2, "num_key_value_heads": 2, "num_local_experts": 4,
        "architectures": ["Llama4ForCausalLM"], "max_position_embeddings": 64,
    },
}  # fmt: skip
"""Keys of small configs whose masks are compared with the library's: windows of 12 tokens where there are any."""
