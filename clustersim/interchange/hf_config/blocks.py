"""Blocks shared by the families in addition to the catalogue's: gated layers, grouped queries, experts, heads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from clustersim.model.builder import Builder, Tensor, chunk_pairs, window_pairs
from clustersim.model.layer import Layer

_GELU = {"gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "quick_gelu", "gelu_accurate"}
_OPS = {"swish": "silu"} | dict.fromkeys(_GELU, "gelu")


def op_of(function: str) -> str:
    """Return the workload's name of a config's activation function.

    >>> op_of("gelu_new"), op_of("silu"), op_of("relu")
    ('gelu', 'silu', 'relu')
    """
    return _OPS.get(function, function.replace("_", "-"))


Attention = Literal["eager", "sdpa"]
"""How attention runs: kernel by kernel, or as torch's `scaled_dot_product_attention`, which is one fused kernel."""


class HfNet(Builder):
    """The catalogue's builder, with the layers of newer transformers."""

    attention: Attention = "sdpa"

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

    def learned_scores(self, name: str, num: int) -> None:
        """Add parameters to the product of scores of this name, which was added a few layers ago."""
        place = next(at for at in reversed(range(len(self.layers))) if self.layers[at].name == name)
        self.layers[place] = replace(self.layers[place], num_parameters=num)

    def tied_embedding(self, name: str, tokens: int, features: int) -> Tensor:
        """Look up tokens in a table that belongs to another layer."""
        return self._elementwise(name, "embedding", tokens, Tensor(features, tokens))

    def parameters(self, name: str, x: Tensor, num: int) -> Tensor:
        """Add learned numbers to every sample: positions, a class token."""
        return self._elementwise(name, "add", x.elements, x, parameters=num)

    def learned_scale(self, name: str, x: Tensor) -> Tensor:
        """Multiply each feature by a learned number."""
        return self._elementwise(name, "multiply", x.elements, x, parameters=x.channels)

    def copied(self, name: str, x: Tensor, y: Tensor, times: int = 1) -> Tensor:
        """Copy a tensor into another order, `times` times over, with zeros where it gets larger."""
        return self._elementwise(name, "copy", times * x.elements + (times - 1) * y.elements, y)

    def causal_convolution(self, name: str, x: Tensor, kernel: int, bias: bool) -> Tensor:
        """Convolve each feature over the last `kernel` tokens, and apply an activation: one kernel, bound by memory.

        FLOP are those of a convolution padded on both sides, as torch has it.
        """
        flop = 2.0 * kernel * x.channels * (x.height + kernel - 1)
        parameters = x.channels * (kernel + bias)
        layer = Layer(name, "causal-convolution", flop, flop, flop, parameters, x.elements, x.elements)
        return self._add(layer, x)

    def scan(self, name: str, op: str, elements: int, y: Tensor, flop: float, parameters: int) -> Tensor:
        """Run a scan over the tokens that reads `elements`, with `flop` in products."""
        return self._add(Layer(name, op, flop, 2 * flop, 0.0, parameters, elements, y.elements), y)

    def drop_path(self, name: str, x: Tensor) -> Tensor:
        """Drop the branches of some samples, and divide the others by the share that is kept (Huang et al., 2016)."""
        return self.copied(name, x, x, times=2)

    def mean(self, name: str, x: Tensor) -> Tensor:
        """Average over all positions."""
        return self._elementwise(name, "pooling", x.elements, Tensor(x.channels))


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
    """Add causal attention with grouped queries (Ainslie et al., 2023), with rotary positions if some are."""
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
    pairs = mask.pairs(x.height)
    context = attention_kernels(net, name, query, key, sizes.heads, causal=True, pairs=pairs)
    if sizes.sinks:
        net.learned_scores(f"{name}.scores", sizes.heads)
    return net.linear(f"{name}.output", context, x.channels, bias=sizes.output_bias)


def _norm(net: HfNet, name: str, x: Tensor, sizes: Grouped, heads: int) -> Tensor:
    if sizes.norm == "all":
        return net.rms_norm(name, x)
    return net.head_norm(name, x, heads, parameters=sizes.width if sizes.scaled else 0)


def attention_kernels(
    net: HfNet,
    name: str,
    query: Tensor,
    key: Tensor,
    heads: int,
    causal: bool = False,
    drops: bool = False,
    table: int | None = None,
    value: Tensor | None = None,
    pairs: float | None = None,
) -> Tensor:
    """Add attention of query, key and value, fused or kernel by kernel, as `HfNet.attention` says.

    With a `table`, numbers of all pairs are added to the scores, such as relative positions; it is how many parameters
    they have, 0 where another layer has them. A fused kernel reads the numbers; it drops weights on the chip. A causal
    one skips masked pairs, unless it has a table: with a mask of numbers it computes all pairs. Kernel by kernel all
    pairs are computed, whatever the mask.
    """
    if net.attention == "eager":
        width = (query if value is None else value).channels // heads
        scores = net.attention_matmul(f"{name}.scores", query, key, heads, outputs=key.height)
        if table is not None:
            scores = net.parameters(f"{name}.shift", scores, table)
        weights = net.softmax(f"{name}.softmax", scores)
        if drops:
            weights = net.dropout(f"{name}.drop_weights", weights)
        return net.attention_matmul(f"{name}.context", weights, key if value is None else value, heads, outputs=width)
    causal &= table is None
    context = net.fused_attention(name, query, key, heads, causal=causal, value=value, pairs=pairs)
    if table is not None:
        scores_layer = net.layers[-2]
        read = scores_layer.input_elements + heads * query.height * key.height
        net.layers[-2] = replace(scores_layer, num_parameters=table, input_elements=read)
    return context


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
