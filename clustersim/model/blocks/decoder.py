"""The frame of a decoder: embedding, blocks, last norm and head; and blocks with norms before, or on both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clustersim.model.blocks.attention import Grouped, Mask, grouped_attention
from clustersim.model.blocks.feed_forward import gated_feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

Block = Callable[[str, int, Tensor], Tensor]
"""Adds a block, from its name, its number, and its input."""
FeedForward = Callable[[str, int, Tensor], Tensor]
"""Adds the second half of a block, from its name, the block's number, and its input."""


@dataclass(frozen=True)
class Frame:
    """The sizes of a decoder outside its blocks, and its head: words, `labels` of a sequence, or none.

    `rows` are those of learned positions, 0 if there are none.
    """

    features: int
    layers: int
    vocabulary: int
    tokens: int
    tied: bool = False
    head: str = "words"
    labels: int = 0
    rows: int = 0


def decoder(net: BlockBuilder, frame: Frame, block: Block, name: str = "layers") -> Tensor:
    """Add the embedding and the blocks: `block` gets the name, the number and the input of each."""
    rows = [frame.vocabulary, frame.rows] if frame.rows else [frame.vocabulary]
    x = net.embedding("embedding", frame.tokens, frame.features, rows=rows)
    x = net.dropout("drop_embedding", x)
    for number in range(frame.layers):
        x = block(f"{name}.{number}", number, x)
    return x


def head(net: BlockBuilder, frame: Frame, x: Tensor, bias: bool = False, cap: bool = False) -> None:
    """Add the head and the loss; with `cap` a tanh limits the scores of words."""
    if frame.head == "words":
        x = net.linear("head", x, frame.vocabulary, bias=bias, tied=frame.tied)
        x = net.activation("head.cap", "tanh", x) if cap else x
    elif frame.head == "labels":
        x = net.linear("score", x, frame.labels, bias=False)
    net.loss("loss", x)


def pre_norm_decoder(
    net: BlockBuilder, frame: Frame, attention: Grouped, masks: Sequence[Mask], feed: FeedForward
) -> None:
    """Add a decoder with RMS norms before attention and feed-forward; each block has its mask."""

    def block(name: str, number: int, x: Tensor) -> Tensor:
        y = grouped_attention(net, f"{name}.attention", net.rms_norm(f"{name}.norm1", x), attention, masks[number])
        x = net.add(f"{name}.attention.add", x, net.dropout(f"{name}.attention.drop1", y))
        y = feed(f"{name}.feed_forward", number, net.rms_norm(f"{name}.norm2", x))
        return net.add(f"{name}.feed_forward.add", x, y)

    head(net, frame, net.rms_norm("norm", decoder(net, frame, block)))


def four_norm_decoder(
    net: BlockBuilder,
    frame: Frame,
    attention: Grouped,
    masks: Sequence[Mask],
    width: int,
    function: str,
    cap: bool = False,
) -> None:
    """Add a decoder with RMS norms before and behind attention and feed-forward, as Gemma 2; `cap` as in `head`."""

    def block(name: str, number: int, x: Tensor) -> Tensor:
        y = grouped_attention(net, f"{name}.attention", net.rms_norm(f"{name}.norm1", x), attention, masks[number])
        x = net.add(f"{name}.attention.add", x, net.rms_norm(f"{name}.norm2", y))
        y = gated_feed_forward(net, f"{name}.feed_forward", net.rms_norm(f"{name}.norm3", x), width, function)
        return net.add(f"{name}.feed_forward.add", x, net.rms_norm(f"{name}.norm4", y))

    head(net, frame, net.rms_norm("norm", decoder(net, frame, block)), cap=cap)
