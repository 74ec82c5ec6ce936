"""Blocks of transformers with layer norms: attention with its projections, feed-forward layers, residual sums.

Attention is one fused kernel (`sdpa`) or one kernel after another (`eager`), as `BlockBuilder.attention` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from clustersim.model.blocks.attention import attention_kernels
from clustersim.model.blocks.feed_forward import feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

Feed = Callable[[BlockBuilder, str, Tensor], Tensor]
"""Adds feed-forward layers, given their name and their input."""


@dataclass(frozen=True)
class Heads:
    """The sizes of an attention, which of its projections have biases, and whether weights are dropped."""

    num: int
    width: int  # features of a head
    bias: bool = True  # of query and value
    key_bias: bool = True
    output_bias: bool = True
    drops: bool = False

    @property
    def features(self) -> int:
        return self.num * self.width


@dataclass(frozen=True)
class Stack:
    """Equal blocks: their number and sizes, whether norms are before or after, and where elements are dropped."""

    layers: int
    heads: Heads
    width: int
    function: str
    norm_first: bool = True
    drops: bool = False  # the output of the feed-forward layers
    drops_attention: bool = False  # the output of the attention
    drops_inside: bool = False  # between the feed-forward layers
    scaled: bool = False  # a learned factor for each feature of a branch
    drops_paths: bool = False  # whole branches of a sample


def attend(
    net: BlockBuilder,
    name: str,
    x: Tensor,
    heads: Heads,
    causal: bool = False,
    memory: Tensor | None = None,
    table: int | None = None,
) -> Tensor:
    """Add attention with its projections, to the sequence itself or to `memory`; the result has the features of `x`."""
    width, source = heads.features, x if memory is None else memory
    if memory is None and heads.bias == heads.key_bias:
        query = key = replace(net.linear(f"{name}.qkv", x, width, bias=heads.bias, count=3), channels=width)
    else:
        query = net.linear(f"{name}.query", x, width, bias=heads.bias)
        if heads.bias == heads.key_bias:
            key = replace(net.linear(f"{name}.key_value", source, width, bias=heads.bias, count=2), channels=width)
        else:
            key = net.linear(f"{name}.key", source, width, bias=heads.key_bias)
            net.linear(f"{name}.value", source, width, bias=heads.bias)
    context = attention_kernels(net, name, query, key, heads.num, causal, heads.drops, table)
    return net.linear(f"{name}.output", context, x.channels, bias=heads.output_bias)


def residual(
    net: BlockBuilder, name: str, x: Tensor, stack: Stack, make: Callable[[Tensor], Tensor], drops: bool
) -> Tensor:
    """Add a branch to `x`, with a norm before it or after the sum."""
    y = make(net.layer_norm(f"{name}.norm", x) if stack.norm_first else x)
    if stack.scaled:
        y = net.learned_scale(f"{name}.scale", y)
    if drops:
        y = net.dropout(f"{name}.drop", y)
    if stack.drops_paths:
        y = net.drop_path(f"{name}.drop_path", y)
    x = net.add(f"{name}.add", x, y)
    return x if stack.norm_first else net.layer_norm(f"{name}.norm", x)


def transformer(
    net: BlockBuilder,
    name: str,
    x: Tensor,
    stack: Stack,
    causal: bool = False,
    memory: Tensor | None = None,
    feed: Feed | None = None,
) -> Tensor:
    """Add the blocks of a stack, which attend to `memory` too if there is one; `feed` is another kind of feed-forward
    layers.
    """
    for number in range(stack.layers):
        x = _block(net, f"{name}.{number}", x, stack, causal, memory, feed)
    return x


def _block(
    net: BlockBuilder, name: str, x: Tensor, stack: Stack, causal: bool, memory: Tensor | None, feed: Feed | None
) -> Tensor:
    own, other, between = f"{name}.attention", f"{name}.memory", f"{name}.feed_forward"
    heads, drops = stack.heads, stack.drops_attention
    x = residual(net, own, x, stack, lambda y: attend(net, own, y, heads, causal), drops)
    if memory is not None:
        x = residual(net, other, x, stack, lambda y: attend(net, other, y, heads, memory=memory), drops)
    return residual(net, between, x, stack, lambda y: _feed(net, between, y, stack, feed), stack.drops)


def _feed(net: BlockBuilder, name: str, x: Tensor, stack: Stack, feed: Feed | None) -> Tensor:
    if feed is not None:
        return feed(net, name, x)
    if not stack.drops_inside:
        return feed_forward(net, name, x, stack.width, stack.function)
    y = net.activation(f"{name}.act", stack.function, net.linear(f"{name}.in", x, stack.width))
    return net.linear(f"{name}.out", net.dropout(f"{name}.drop_inside", y), x.channels)


def token_head(net: BlockBuilder, name: str, x: Tensor, outputs: int) -> None:
    """End with a label for each token."""
    net.loss("loss", net.linear(name, net.dropout(f"{name}.drop", x), outputs))
