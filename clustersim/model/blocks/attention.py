"""Attention with grouped queries, windows, norms of queries and keys, and sinks: fused, or kernel by kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor, chunk_pairs, window_pairs

_WITH_TABLE = 1
"""Kernel (`Layer.shape`) of fused attention that adds numbers to the scores: PyTorch's memory-efficient one, since
FlashAttention-2 has no such input (`sdp_utils.cpp`). Assumed: the rate of the first FlashAttention.
"""


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


def grouped_attention(net: BlockBuilder, name: str, x: Tensor, sizes: Grouped, mask: Mask = WHOLE) -> Tensor:
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


def _norm(net: BlockBuilder, name: str, x: Tensor, sizes: Grouped, heads: int) -> Tensor:
    if sizes.norm == "all":
        return net.rms_norm(name, x)
    return net.head_norm(name, x, heads, parameters=sizes.width if sizes.scaled else 0)


def attention_kernels(
    net: BlockBuilder,
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
    """Add attention of query, key and value, fused or kernel by kernel, as `BlockBuilder.attention` says.

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
    flash = 2 if table is None else _WITH_TABLE
    context = net.fused_attention(name, query, key, heads, causal=causal, flash=flash, value=value, pairs=pairs)
    if table is not None:
        scores_layer = net.layers[-2]
        read = scores_layer.input_elements + heads * query.height * key.height
        net.layers[-2] = replace(scores_layer, num_parameters=table, input_elements=read)
    return context
