"""MPT (MosaicML, 2023) in the sizes of llm-foundry's measurements: GPTs with fused causal attention, learnt positions.

Attention is FlashAttention 1: llm-foundry required flash-attn 1.0.3, or had it in Triton
(llmfoundry/models/layers/attention.py, commit 00ef82a3).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from clustersim.errors import InputError
from clustersim.model.builder import Builder, Tensor
from clustersim.model.catalogue.transformer import causal_attention, feed_forward
from clustersim.model.layer import Model

_SOURCE = (
    "mosaicml/llm-foundry, scripts/train/yamls/mpt (2023), and the parameters in scripts/train/benchmarking/README.md"
)
_VOCABULARY = 50_368
MPT_SIZES = {  # layers, features, heads
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}
_TOKENS = 2048


def mpt(size: str, tokens: int = _TOKENS) -> Callable[[], Model]:
    """Return a builder of MPT of a size in `MPT_SIZES`, without dropout; a sample is `tokens` tokens.

    It has V h + P h + L (12 h^2 + 13 h) + 2 h parameters: V words and P positions of h features, L layers, and an
    output head with the embedding's matrix. llm-foundry counts the same number.
    """

    def build() -> Model:
        """Return the model of this size, each block normalised before attention and before the feed-forward layers."""
        layers, features, heads = MPT_SIZES[size]
        name = f"mpt-{size}" if tokens == _TOKENS else f"mpt-{size}-seq{tokens}"
        net = Builder(name, f"MPT {size.upper()}, {tokens} tokens", sample="sequence", source=_SOURCE)
        x = net.embedding("embedding", tokens, features, rows=[_VOCABULARY, tokens])
        for number in range(layers):
            x = _block(net, f"h.{number}", x, heads)
        x = net.layer_norm("norm", x)
        net.loss("loss", net.linear("head", x, _VOCABULARY, bias=False, tied=True))
        return net.model()

    return build


def _block(net: Builder, name: str, x: Tensor, heads: int) -> Tensor:
    y = causal_attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), heads, drops=False, flash=1)
    x = net.add(f"{name}.attention.add", x, y)
    y = feed_forward(net, f"{name}.feed_forward", net.layer_norm(f"{name}.norm2", x), drops=False)
    return net.add(f"{name}.feed_forward.add", x, y)


_ANY = re.compile(r"mpt-?(\d+[mb])-seq(\d+)", re.IGNORECASE)


def any_mpt(name: str) -> Callable[[], Model] | None:
    """Return a builder of an MPT whose name gives a sequence length, None for other names.

    >>> any_mpt("mpt-7b-seq8192")().num_parameters
    6684024832
    """
    found = _ANY.fullmatch(name)
    if found is None or found[1].lower() not in MPT_SIZES:
        return None
    tokens = int(found[2])
    if not tokens:
        allowed = "a number of tokens, as in mpt-7b-seq8192"
        raise InputError(f"'{name}' has no tokens: write {allowed}", got=name, allowed=allowed)
    return mpt(found[1].lower(), tokens)
