"""Blocks shared by the families in addition to the catalogue's: gated layers, grouped queries, experts, heads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clustersim.model.builder import Builder, Tensor

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

    def activation(self, name: str, function: str, x: Tensor) -> Tensor:
        """Apply a function to each element, by its name in the config."""
        return self._elementwise(name, op_of(function), x.elements, x)

    def tied_embedding(self, name: str, tokens: int, features: int) -> Tensor:
        """Look up tokens in a table that belongs to another layer."""
        return self._elementwise(name, "embedding", tokens, Tensor(features, tokens))

    def parameters(self, name: str, x: Tensor, num: int) -> Tensor:
        """Add learned numbers to every sample: positions, a class token."""
        return self._elementwise(name, "add", x.elements, x, parameters=num)


@dataclass(frozen=True)
class Grouped:
    """The sizes of an attention whose keys and values may be shared by several queries, and its biases."""

    heads: int
    kv_heads: int
    width: int
    bias: bool
    output_bias: bool


def grouped_attention(net: HfNet, name: str, x: Tensor, sizes: Grouped) -> Tensor:
    """Add fused causal attention with rotary positions and grouped queries (Ainslie et al., 2023)."""
    query = net.linear(f"{name}.query", x, sizes.heads * sizes.width, bias=sizes.bias)
    both = net.linear(f"{name}.key_value", x, sizes.kv_heads * sizes.width, bias=sizes.bias, count=2)
    key = replace(both, channels=sizes.kv_heads * sizes.width)
    net.rotary(f"{name}.rotary", replace(query, channels=query.channels + key.channels))
    context = net.fused_attention(name, query, key, sizes.heads, causal=True)
    return net.linear(f"{name}.output", context, x.channels, bias=sizes.output_bias)


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


def gated_feed_forward(net: HfNet, name: str, x: Tensor, width: int, function: str, bias: bool = False) -> Tensor:
    """Add three linear layers: one gates another (Shazeer, 2020), the third projects back."""
    y = net.gate(f"{name}.gate", net.linear(f"{name}.in", x, width, bias=bias, count=2), op_of(function))
    return net.linear(f"{name}.out", y, x.channels, bias=bias)


def token_head(net: HfNet, name: str, x: Tensor, outputs: int) -> None:
    """End with a label for each token."""
    net.loss("loss", net.linear(name, net.dropout(f"{name}.drop", x), outputs))
