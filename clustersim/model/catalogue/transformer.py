"""Shared parts of BERT and GPT: self-attention and the feed-forward layers around it (Vaswani et al., 2017)."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor


def attention(net: Builder, name: str, x: Tensor, heads: int, fused: bool) -> Tensor:
    """Add self-attention with its projections; `fused` computes query, key and value in one kernel.

    Scores of all pairs of tokens are computed, masked or not: 2 x 2 tokens^2 x features FLOP.
    """
    features, tokens = x.channels, x.height
    qkv = net.linear(f"{name}.qkv", x, 3 * features) if fused else net.linear(f"{name}.qkv", x, features, count=3)
    each = Tensor(features, qkv.height)
    scores = net.attention_matmul(f"{name}.scores", each, each, heads, outputs=tokens)
    weights = net.dropout(f"{name}.drop_weights", net.softmax(f"{name}.softmax", scores))
    context = net.attention_matmul(f"{name}.context", weights, each, heads, outputs=features // heads)
    return net.dropout(f"{name}.drop", net.linear(f"{name}.output", context, features))


def causal_attention(net: Builder, name: str, x: Tensor, heads: int, drops: bool = True, flash: int = 2) -> Tensor:
    """Add self-attention with its projections as one fused kernel, which skips masked pairs."""
    qkv = net.linear(f"{name}.qkv", x, 3 * x.channels)
    each = Tensor(x.channels, qkv.height)
    context = net.fused_attention(name, each, each, heads, causal=True, flash=flash)
    y = net.linear(f"{name}.output", context, x.channels)
    return net.dropout(f"{name}.drop", y) if drops else y


def feed_forward(net: Builder, name: str, x: Tensor, drops: bool = True) -> Tensor:
    """Add two linear layers, four times as wide in between, with a GELU."""
    y = net.gelu(f"{name}.gelu", net.linear(f"{name}.in", x, 4 * x.channels))
    y = net.linear(f"{name}.out", y, x.channels)
    return net.dropout(f"{name}.drop", y) if drops else y
