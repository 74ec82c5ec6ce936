"""Blocks shared by the families in addition to the catalogue's: gated layers, grouped queries, experts, heads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from clustersim.model.builder import Builder, Tensor, chunk_pairs, window_pairs

_GELU = {"gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "quick_gelu", "gelu_accurate"}
_OPS = {"swish": "silu"} | dict.fromkeys(_GELU, "gelu")


def op_of(function: str) -> str:
    """Return the workload's name of a config's activation function.

    >>> op_of("gelu_new"), op_of("silu"), op_of("relu")
    ('gelu', 'silu', 'relu')
    """
    return _OPS.get(function, function.replace("_", "-"))


class HfNet(Builder):
    """The catalogue's builder, with the layers of newer transformers."""

    def __init__(self, name: str, title: str, sample: str = "image", source: str = ""):
        super().__init__(name, title, sample, source)
        self.keeps = {"drop1", "drop2", "drop_embedding"}

    def activation(self, name: str, function: str, x: Tensor) -> Tensor:
        """Apply a function to each element, by its name in the config."""
        return self._elementwise(name, op_of(function), x.elements, x)

    def dropout(self, name: str, x: Tensor) -> Tensor:
        """Drop elements at random, unless layers of this last name drop nothing (`keeps`), as the config says."""
        return x if name.rpartition(".")[2] in self.keeps else super().dropout(name, x)

    def plain_norm(self, name: str, x: Tensor) -> Tensor:
        """Normalise each position over its features, without parameters."""
        return self._elementwise(name, "layer-norm", x.elements, x)

    def scaled(self, name: str, x: Tensor) -> Tensor:
        """Multiply each token by a number."""
        return self._elementwise(name, "multiply", x.elements, x)

    def learned_scores(self, num: int) -> None:
        """Add parameters to the scores of the fused attention that was added last."""
        self.layers[-2] = replace(self.layers[-2], num_parameters=num)

    def tied_embedding(self, name: str, tokens: int, features: int) -> Tensor:
        """Look up tokens in a table that belongs to another layer."""
        return self._elementwise(name, "embedding", tokens, Tensor(features, tokens))

    def parameters(self, name: str, x: Tensor, num: int) -> Tensor:
        """Add learned numbers to every sample: positions, a class token."""
        return self._elementwise(name, "add", x.elements, x, parameters=num)


@dataclass(frozen=True)
class Grouped:
    """The sizes of an attention whose keys and values may be shared by several queries.

    `bias` and `output_bias` say which products have biases, and `joined` that query, key and value are one. `rotated`
    is the share of each head's features that its position rotates. `norm` says what queries and keys are normalised
    over: each head's features, those of all heads together, or nothing; `scaled` norms have parameters. `sinks` is a
    learned score of each head beside those of the tokens (gpt-oss).
    """

    heads: int
    kv_heads: int
    width: int
    bias: bool = False
    output_bias: bool = False
    joined: bool = False
    rotated: float = 1.0
    norm: Literal["", "head", "all"] = ""
    scaled: bool = True
    sinks: bool = False


@dataclass(frozen=True)
class Mask:
    """Which tokens before it a token sees: all, those in a window, or those in its chunk of the sequence."""

    window: int | None = None
    chunk: int | None = None

    def pairs(self, tokens: int) -> float | None:
        """Return the pairs of tokens; None where neither window nor chunk is shorter than the sequence."""
        if self.window is not None and self.window < tokens:
            return window_pairs(tokens, self.window)
        if self.chunk is not None and self.chunk < tokens:
            return chunk_pairs(tokens, self.chunk)
        return None


WHOLE = Mask()


def grouped_attention(net: HfNet, name: str, x: Tensor, sizes: Grouped, mask: Mask = WHOLE) -> Tensor:
    """Add fused causal attention with grouped queries (Ainslie et al., 2023), with rotary positions if some are."""
    queries, keys = sizes.heads * sizes.width, sizes.kv_heads * sizes.width
    if sizes.joined:
        net.linear(f"{name}.qkv", x, queries + 2 * keys, bias=sizes.bias)
    else:
        net.linear(f"{name}.query", x, queries, bias=sizes.bias)
        net.linear(f"{name}.key_value", x, keys, bias=sizes.bias, count=2)
    query, key = Tensor(queries, x.height), Tensor(keys, x.height)
    if sizes.norm:
        _norm(net, f"{name}.query_norm", query, sizes, sizes.heads)
        _norm(net, f"{name}.key_norm", key, sizes, sizes.kv_heads)
    if sizes.rotated:
        net.rotary(f"{name}.rotary", replace(query, channels=round(sizes.rotated * (queries + keys))))
    context = net.fused_attention(name, query, key, sizes.heads, causal=True, pairs=mask.pairs(x.height))
    if sizes.sinks:
        net.learned_scores(sizes.heads)
    return net.linear(f"{name}.output", context, x.channels, bias=sizes.output_bias)


def _norm(net: HfNet, name: str, x: Tensor, sizes: Grouped, heads: int) -> Tensor:
    if sizes.norm == "all":
        return net.rms_norm(name, x)
    return net.head_norm(name, x, heads, parameters=sizes.width if sizes.scaled else 0)


def plain_attention(
    net: HfNet,
    name: str,
    query: Tensor,
    key: Tensor,
    heads: int,
    features: int,
    num_shifts: int = 0,
    bias: bool = False,
) -> Tensor:
    """Add unfused attention from query, key and value, kernel by kernel as in the catalogue, with a projection to
    `features`.

    `num_shifts` learned numbers are added to the scores.
    """
    width = query.channels // heads
    scores = net.attention_matmul(f"{name}.scores", query, key, heads, outputs=key.height)
    if num_shifts:
        scores = net.parameters(f"{name}.shift", scores, num_shifts)
    weights = net.dropout(f"{name}.drop_weights", net.softmax(f"{name}.softmax", scores))
    context = net.attention_matmul(f"{name}.context", weights, key, heads, outputs=width)
    return net.dropout(f"{name}.drop", net.linear(f"{name}.output", context, features, bias=bias))


def feed_forward(net: HfNet, name: str, x: Tensor, width: int, function: str, bias: bool = True) -> Tensor:
    """Add two linear layers, `width` features in between."""
    op = op_of(function)
    y = net.activation(f"{name}.{op}", function, net.linear(f"{name}.in", x, width, bias=bias))
    return net.linear(f"{name}.out", y, x.channels, bias=bias)


def gated_feed_forward(
    net: HfNet, name: str, x: Tensor, width: int, function: str, bias: bool = False, joined: bool = False
) -> Tensor:
    """Add three linear layers: one gates another (Shazeer, 2020), the third projects back.

    The first two may be `joined` in one product.
    """
    if joined:
        y = net.linear(f"{name}.in", x, 2 * width, bias=bias)
    else:
        y = net.linear(f"{name}.in", x, width, bias=bias, count=2)
    y = net.gate(f"{name}.gate", y, op_of(function))
    return net.linear(f"{name}.out", y, x.channels, bias=bias)


def token_head(net: HfNet, name: str, x: Tensor, outputs: int) -> None:
    """End with a label for each token."""
    net.loss("loss", net.linear(name, net.dropout(f"{name}.drop", x), outputs))
