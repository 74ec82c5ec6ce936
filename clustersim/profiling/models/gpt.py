"""GPT-2, and GPTs of any size: decoders whose embedding is also their output head."""

from __future__ import annotations

import re
from collections.abc import Callable

from clustersim.profiling.net import TorchNet, Value

_WORDS, _TOKENS, _TOKENS_OF_ANY, _DROPOUT = 50_257, 1024, 2048, 0.1
_ANY = re.compile(r"gpt-(\d+)x(\d+)x(\d+)(?:-seq(\d+))?(?:-vocab(\d+))?")


def any_gpt(name: str) -> Callable[[TorchNet], None] | None:
    """Return a builder of a GPT whose name gives its sizes, as in the catalogue; None for other names.

    `gpt-12x768x12-seq128` is GPT-2 small on 128 tokens: 12 layers of 768 features and 12 heads.
    """
    found = _ANY.fullmatch(name)
    if found is None:
        return None
    layers, features, heads = (int(size) for size in found.groups()[:3])
    tokens, words = int(found[4] or _TOKENS_OF_ANY), int(found[5] or _WORDS)
    if not layers * features * heads * tokens * words or features % heads:
        return None
    return gpt2(layers, features, heads, tokens, words)


def gpt2(
    layers: int, features: int, heads: int, tokens: int = _TOKENS, words: int = _WORDS
) -> Callable[[TorchNet], None]:
    """Return a builder of a GPT of `layers` layers on `tokens` tokens. Attention is torch's fused kernel."""

    def write(net: TorchNet) -> None:
        embedding = net.embedding("embedding", net.words(tokens), words, features, num_positions=tokens)
        x = net.dropout("drop", embedding, _DROPOUT)
        for number in range(layers):
            x = _block(net, f"h.{number}", x, heads)
        net.loss("loss", net.tied("head", net.layer_norm("norm", x), embedding))

    return write


def _block(net: TorchNet, name: str, x: Value, heads: int) -> Value:
    features = x.channels
    y = net.linear(f"{name}.attention.qkv", net.layer_norm(f"{name}.norm1", x), 3 * features)
    rest = tuple(f"{name}.attention.{part}" for part in ("softmax", "drop_weights", "context"))
    y = net.attention(f"{name}.attention.scores", y, heads, _DROPOUT, fused=rest)
    y = net.dropout(f"{name}.attention.drop", net.linear(f"{name}.attention.output", y, features), _DROPOUT)
    x = net.add(f"{name}.attention.add", x, y)
    y = net.linear(f"{name}.feed_forward.in", net.layer_norm(f"{name}.norm2", x), 4 * features)
    y = net.linear(f"{name}.feed_forward.out", net.gelu(f"{name}.feed_forward.gelu", y), features)
    return net.add(f"{name}.feed_forward.add", x, net.dropout(f"{name}.feed_forward.drop", y, _DROPOUT))
