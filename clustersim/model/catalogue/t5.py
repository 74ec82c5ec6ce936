"""T5 v1.1 (Raffel et al., 2020; Shazeer, 2020): encoder and decoder with gated layers, on 512 and 128 tokens."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_VOCABULARY, _WIDTH, _BUCKETS = 32_128, 64, 32
_TOKENS, _TARGETS = 512, 128
_SOURCE = (
    "google-research/t5x, t5x/contrib/gpu/t5: network.py (commit 0bc3617a), t5_1_1/small.gin and large.gin (fa8ba260), "
    "xl.gin (5aed264f), xxl.gin (985a6066), tokens in t5_1_1/examples"
)
T5_SIZES = {
    "t5-v1.1-small": (8, 512, 6, 1024),
    "t5-v1.1-large": (24, 1024, 16, 2816),
    "t5-v1.1-xl": (24, 2048, 32, 5120),
    "t5-v1.1-xxl": (24, 4096, 64, 10_240),
}
"""Layers of the encoder and as many of the decoder, features, heads of 64, features of the feed-forward layers."""


def t5(name: str) -> Callable[[], Model]:
    """Return a builder of a T5 of `T5_SIZES`: no biases, no dropout, an output head with its own weights.

    Relative positions are a bias of each head, a table for encoder and for decoder, added to scores by the masking
    kernel.
    """

    def build() -> Model:
        layers, features, heads, hidden = T5_SIZES[name]
        title = f"T5 v1.1 {name.rpartition('-')[2]}, {_TOKENS} and {_TARGETS} tokens"
        net = Builder(name, title, sample="sequence pair", source=_SOURCE)
        x = net.embedding("embedding", _TOKENS, features, rows=[_VOCABULARY])
        _positions(net, "encoder.positions", heads)
        for number in range(layers):
            x = _attend(net, f"encoder.{number}.self", x, heads)
            x = _feed_forward(net, f"encoder.{number}", x, hidden)
        memory = net.rms_norm("encoder.norm", x)
        # The decoder uses the encoder's table: it has no rows.
        x = net.embedding("decoder.embedding", _TARGETS, features, rows=[0])
        _positions(net, "decoder.positions", heads)
        for number in range(layers):
            x = _attend(net, f"decoder.{number}.self", x, heads)
            x = _attend(net, f"decoder.{number}.across", x, heads, memory)
            x = _feed_forward(net, f"decoder.{number}", x, hidden)
        x = net.rms_norm("decoder.norm", x)
        net.loss("loss", net.linear("head", x, _VOCABULARY, bias=False))
        return net.model()

    return build


def _positions(net: Builder, name: str, heads: int) -> None:
    """Add the table of relative positions; its few entries are looked up once for all samples."""
    net.embedding(name, 1, heads, rows=[_BUCKETS], words=False)


def _attend(net: Builder, name: str, x: Tensor, heads: int, memory: Tensor | None = None) -> Tensor:
    """Add self-attention, or attention to a memory; query, key and value have separate matrices."""
    inner = heads * _WIDTH
    y = net.rms_norm(f"{name}.norm", x)
    if memory is None:
        net.linear(f"{name}.qkv", y, inner, bias=False, count=3)
    else:
        net.linear(f"{name}.q", y, inner, bias=False)
        net.linear(f"{name}.kv", memory, inner, bias=False, count=2)
    query, key = Tensor(inner, x.height), Tensor(inner, (memory or x).height)
    scores = net.attention_matmul(f"{name}.scores", query, key, heads, outputs=key.height)
    weights = net.softmax(f"{name}.softmax", scores)
    y = net.attention_matmul(f"{name}.context", weights, key, heads, outputs=_WIDTH)
    return net.add(f"{name}.add", x, net.linear(f"{name}.output", y, x.channels, bias=False))


def _feed_forward(net: Builder, name: str, x: Tensor, hidden: int) -> Tensor:
    y = net.linear(f"{name}.in", net.rms_norm(f"{name}.norm", x), hidden, bias=False, count=2)
    y = net.linear(f"{name}.out", net.gate(f"{name}.gate", y, "gelu"), x.channels, bias=False)
    return net.add(f"{name}.feed_forward.add", x, y)
