"""GPT-2: a decoder whose embedding is also its last layer. A sample is 1024 tokens."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.profiling.net import Net, Value

_WORDS, _TOKENS, _DROPOUT = 50_257, 1024, 0.1


def gpt2(layers: int, features: int, heads: int) -> Callable[[Net], None]:
    """Return what writes a GPT-2 of so many layers. Attention is torch's fused kernel."""

    def write(net: Net) -> None:
        embedding = net.embedding("embedding", net.words(_TOKENS), _WORDS, features, num_positions=_TOKENS)
        x = net.dropout("drop", embedding, _DROPOUT)
        for number in range(layers):
            x = _block(net, f"h.{number}", x, heads)
        net.loss("loss", net.tied("head", net.layer_norm("norm", x), embedding))

    return write


def _block(net: Net, name: str, x: Value, heads: int) -> Value:
    features = x.channels
    y = net.linear(f"{name}.attention.qkv", net.layer_norm(f"{name}.norm1", x), 3 * features)
    rest = tuple(f"{name}.attention.{part}" for part in ("softmax", "drop_weights", "context"))
    y = net.attention(f"{name}.attention.scores", y, heads, _DROPOUT, fused=rest)
    y = net.dropout(f"{name}.attention.drop", net.linear(f"{name}.attention.output", y, features), _DROPOUT)
    x = net.add(f"{name}.attention.add", x, y)
    y = net.linear(f"{name}.feed_forward.in", net.layer_norm(f"{name}.norm2", x), 4 * features)
    y = net.linear(f"{name}.feed_forward.out", net.gelu(f"{name}.feed_forward.gelu", y), features)
    return net.add(f"{name}.feed_forward.add", x, net.dropout(f"{name}.feed_forward.drop", y, _DROPOUT))
