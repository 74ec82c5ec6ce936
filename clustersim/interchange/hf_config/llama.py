"""Llama (Touvron et al., 2023) and related models: RMS norms, rotary positions, grouped queries, gated layers."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.interchange.hf_config.blocks import Grouped, HfNet, gated_feed_forward, grouped_attention, op_of
from clustersim.interchange.hf_config.config import Config
from clustersim.model.builder import Tensor


@dataclass(frozen=True)
class _Defaults:
    """Defaults of the family's class; `kv_heads` 0 is one for each query."""

    prefix: str
    vocabulary: int
    width: int
    kv_heads: int
    positions: int
    qkv_bias: bool = False
    experts: int = 0


def llama(net: HfNet, config: Config) -> None:
    """Build a Llama."""
    _decoder(net, config, _Defaults("Llama", 32_000, 11_008, 0, 2048))


def mistral(net: HfNet, config: Config) -> None:
    """Build Mistral (Jiang et al., 2023). All pairs of tokens are counted, including those outside its window."""
    _decoder(net, config, _Defaults("Mistral", 32_000, 14_336, 8, 131_072))


def mixtral(net: HfNet, config: Config) -> None:
    """Build Mixtral (Jiang et al., 2024): Mistral with experts, of which each token uses some."""
    _decoder(net, config, _Defaults("Mixtral", 32_000, 14_336, 8, 131_072, experts=8))


def qwen2(net: HfNet, config: Config) -> None:
    """Build Qwen2 (2024): Llama with biases on query, key and value."""
    _decoder(net, config, _Defaults("Qwen2", 151_936, 22_016, 32, 32_768, qkv_bias=True))


def _decoder(net: HfNet, config: Config, default: _Defaults) -> None:
    causal, plain, scored = (f"{default.prefix}{end}" for end in ("ForCausalLM", "Model", "ForSequenceClassification"))
    kind = config.architecture([causal, plain, scored])
    features, layers = config.size("hidden_size", 4096), config.layers("num_hidden_layers", 32)
    vocabulary, width = config.size("vocab_size", default.vocabulary), config.size("intermediate_size", default.width)
    attention = _attention_sizes(config, features, default)
    function, tied = config.text("hidden_act", "silu"), config.flag("tie_word_embeddings", False)
    bias = config.flag("mlp_bias", False)
    num, active = (config.size("num_local_experts", default.experts or 1), config.size("num_experts_per_tok", 2))
    if default.experts and active > num:
        config.wrong("num_experts_per_tok", f"there are {num} experts (got {active})", active, f"1 to {num}")
    tokens = config.tokens(config.size("max_position_embeddings", default.positions), learned=False)
    labels = config.labels()
    config.check()
    x = net.embedding("embedding", tokens, features, rows=[vocabulary])
    for number in range(layers):
        name = f"layers.{number}"
        y = grouped_attention(net, f"{name}.attention", net.rms_norm(f"{name}.norm1", x), attention)
        x = net.add(f"{name}.attention.add", x, y)
        y = net.rms_norm(f"{name}.norm2", x)
        if default.experts:
            y = _experts(net, f"{name}.experts", y, width, function, num, active)
        else:
            y = gated_feed_forward(net, f"{name}.feed_forward", y, width, function, bias)
        x = net.add(f"{name}.feed_forward.add", x, y)
    x = net.rms_norm("norm", x)
    if kind == causal:
        x = net.linear("head", x, vocabulary, bias=False, tied=tied)
    elif kind == scored:
        x = net.linear("score", x, labels, bias=False)
    net.loss("loss", x)


def _attention_sizes(config: Config, features: int, default: _Defaults) -> Grouped:
    heads = config.size("num_attention_heads", 32)
    kv_heads = config.size("num_key_value_heads", min(default.kv_heads, heads) or heads)
    config.split("num_attention_heads", heads, "num_key_value_heads", kv_heads)
    width = config.size("head_dim", max(1, features // heads))
    if config.values.get("head_dim") is None:
        config.split("hidden_size", features, "num_attention_heads", heads)
    bias = config.flag("attention_bias", default.qkv_bias) or default.qkv_bias
    return Grouped(heads, kv_heads, width, bias, output_bias=bias and not default.qkv_bias)


def _experts(net: HfNet, name: str, x: Tensor, width: int, function: str, num: int, active: int) -> Tensor:
    """Add a gated layer of several experts: a router, the three GEMMs of the chosen experts, and their weighted sum."""
    net.router(f"{name}.router", x, num)
    y = net.experts(f"{name}.in", x, width, num, active, count=2)
    y = net.gate(f"{name}.gate", y, op_of(function))
    y = net.experts(f"{name}.out", y, x.channels, num, active)
    return net.weighted_sum(f"{name}.sum", y)
