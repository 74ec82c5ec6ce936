"""GPT-2 (Radford et al., 2019) and GPT-NeoX (Black et al., 2022): decoders with layer norms and one QKV matrix."""

from __future__ import annotations

from clustersim.interchange.hf_config.blocks import HfNet, feed_forward
from clustersim.interchange.hf_config.config import Config
from clustersim.model.builder import Tensor
from clustersim.model.catalogue.transformer import attention


def gpt2(net: HfNet, config: Config) -> None:
    """Build GPT-2, with its head unless `architectures` is GPT2Model."""
    kind = config.architecture(["GPT2LMHeadModel", "GPT2Model"])
    features, heads, layers = config.size("n_embd", 768), config.size("n_head", 12), config.layers("n_layer", 12)
    vocabulary, positions = config.size("vocab_size", 50_257), config.size("n_positions", 1024)
    width, function = config.size("n_inner", 4 * features), config.text("activation_function", "gelu_new")
    config.split("n_embd", features, "n_head", heads)
    tied = config.flag("tie_word_embeddings", True)
    tokens = config.tokens(positions, learned=True)
    config.check()
    x = net.dropout("drop", net.embedding("embedding", tokens, features, rows=[vocabulary, positions]))
    for number in range(layers):
        name = f"h.{number}"
        y = attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), heads, fused=True)
        x = net.add(f"{name}.attention.add", x, y)
        y = feed_forward(net, f"{name}.feed_forward", net.layer_norm(f"{name}.norm2", x), width, function)
        y = net.dropout(f"{name}.feed_forward.drop", y)
        x = net.add(f"{name}.feed_forward.add", x, y)
    x = net.layer_norm("norm", x)
    if kind == "GPT2LMHeadModel":
        x = net.linear("head", x, vocabulary, bias=False, tied=tied)
    net.loss("loss", x)


def gpt_neox(net: HfNet, config: Config) -> None:
    """Build GPT-NeoX: rotary positions, both branches of a block on the same input, a separate head."""
    kind = config.architecture(["GPTNeoXForCausalLM", "GPTNeoXModel"])
    features, heads = config.size("hidden_size", 6144), config.size("num_attention_heads", 64)
    layers, vocabulary = config.layers("num_hidden_layers", 44), config.size("vocab_size", 50_432)
    width, function = config.size("intermediate_size", 24_576), config.text("hidden_act", "gelu")
    bias, parallel = config.flag("attention_bias", True), config.flag("use_parallel_residual", True)
    tied = config.flag("tie_word_embeddings", False)
    config.split("hidden_size", features, "num_attention_heads", heads)
    tokens = config.tokens(config.size("max_position_embeddings", 2048), learned=False)
    config.check()
    x = net.embedding("embedding", tokens, features, rows=[vocabulary])
    for number in range(layers):
        name = f"layers.{number}"
        y = _rotary_attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), heads, bias)
        if parallel:
            z = net.layer_norm(f"{name}.norm2", x)
            z = feed_forward(net, f"{name}.feed_forward", z, width, function)
            x = net.add(f"{name}.feed_forward.add", net.add(f"{name}.attention.add", x, y), z)
        else:
            x = net.add(f"{name}.attention.add", x, y)
            z = net.layer_norm(f"{name}.norm2", x)
            z = feed_forward(net, f"{name}.feed_forward", z, width, function)
            x = net.add(f"{name}.feed_forward.add", x, z)
    x = net.layer_norm("norm", x)
    if kind == "GPTNeoXForCausalLM":
        x = net.linear("head", x, vocabulary, bias=False, tied=tied)
    net.loss("loss", x)


def _rotary_attention(net: HfNet, name: str, x: Tensor, heads: int, bias: bool) -> Tensor:
    """Add causal attention with rotary positions and one GEMM for query, key and value."""
    qkv = net.linear(f"{name}.qkv", x, 3 * x.channels, bias=bias)
    net.rotary(f"{name}.rotary", Tensor(2 * x.channels, qkv.height))
    each = Tensor(x.channels, qkv.height)
    return net.linear(
        f"{name}.output", net.fused_attention(name, each, each, heads, causal=True), x.channels, bias=bias
    )
