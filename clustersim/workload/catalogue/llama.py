"""Llama 3 (Grattafiori et al., 2024): decoders with grouped queries, a gated feed-forward layer and an untied head."""

from __future__ import annotations

import re
from collections.abc import Callable

from clustersim.errors import InputError
from clustersim.workload.builder import Builder, Tensor
from clustersim.workload.layer import Model

_SOURCE = "arXiv:2407.21783, table 3"
_VOCABULARY = 128_256
_KEY_HEADS = 8
_SIZES = {  # layers, features, heads, features between
    "8b": (32, 4096, 32, 14_336),
    "70b": (80, 8192, 64, 28_672),
    "405b": (126, 16_384, 128, 53_248),
}
DEFAULT_TOKENS = 8192
"""What Llama 3 was first trained on."""


def llama3(size: str, tokens: int = DEFAULT_TOKENS) -> Callable[[], Model]:
    """Return what builds Llama 3.1 of `8b`, `70b` or `405b` parameters; a sample is so many tokens.

    Attention is one fused kernel that skips what the mask hides, as PyTorch has it by default.
    """

    def build() -> Model:
        """Return the model of this size, each block RMS norm, attention, and a gated feed-forward of SiLU."""
        layers, features, heads, between = _SIZES[size]
        name = f"llama-3.1-{size}" if tokens == DEFAULT_TOKENS else f"llama-3.1-{size}-seq{tokens}"
        title = f"Llama 3.1 {size.upper()}, {tokens} tokens"
        net = Builder(name, title, sample="sequence", source=_SOURCE)
        x = net.embedding("embedding", tokens, features, rows=[_VOCABULARY])
        for number in range(layers):
            x = _block(net, f"h.{number}", x, heads, between)
        x = net.rms_norm("norm", x)
        net.loss("loss", net.linear("head", x, _VOCABULARY, bias=False))
        return net.model()

    return build


_ANY = re.compile(r"llama-?3\.1-(8b|70b|405b)-seq(\d+)", re.IGNORECASE)


def any_llama(name: str) -> Callable[[], Model] | None:
    """Return what builds a Llama 3.1 on as many tokens as its name says, None where the name does not.

    >>> any_llama("llama-3.1-8b-seq131072")().title
    'Llama 3.1 8B, 131072 tokens'
    """
    found = _ANY.fullmatch(name)
    if found is None:
        return None
    tokens = int(found[2])
    if not tokens:
        allowed = "a number of tokens, as in llama-3.1-8b-seq131072"
        raise InputError(f"'{name}' has no tokens: write {allowed}", got=name, allowed=allowed)
    return llama3(found[1].lower(), tokens)


def _block(net: Builder, name: str, x: Tensor, heads: int, between: int) -> Tensor:
    y = attention(net, f"{name}.attention", net.rms_norm(f"{name}.norm1", x), heads)
    x = net.add(f"{name}.attention.add", x, y)
    gated = net.linear(f"{name}.feed_forward.in", net.rms_norm(f"{name}.norm2", x), between, bias=False, count=2)
    y = net.gate(f"{name}.feed_forward.gate", gated)
    return net.add(f"{name}.feed_forward.add", x, net.linear(f"{name}.feed_forward.out", y, x.channels, bias=False))


def attention(net: Builder, name: str, x: Tensor, heads: int) -> Tensor:
    """Let groups of query heads share a key and a value (Ainslie et al., 2023); one matrix makes all three.

    The mask lets each token see earlier ones only.
    """
    features, tokens = x.channels, x.height
    each = features // heads
    query, key = Tensor(features, tokens), Tensor(_KEY_HEADS * each, tokens)
    net.rotary(f"{name}.rotary", net.linear(f"{name}.qkv", x, features + 2 * key.channels, bias=False), query, key)
    context = net.fused_attention(name, query, key, heads, causal=True)
    return net.linear(f"{name}.output", context, features, bias=False)
