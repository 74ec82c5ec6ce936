"""Vision Transformers (Dosovitskiy et al., 2021; Zhai et al., 2022) in NVIDIA's Rosetta on ImageNet."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_PIXELS, _CLASSES, _REPRESENTATION = 224, 1000, 768
_SIZES = {"b-16": (12, 768, 12, 3072, 16), "g-14": (48, 1664, 16, 8192, 14)}
"""Layers, features, heads, features of the feed-forward layers, pixels a side of a patch."""
_SOURCE = (
    "NVIDIA/JAX-Toolbox, rosetta/rosetta/projects/vit, layers.py (commit 5c68edc4), configs/base.gin (ac4b8ea8) and "
    "G.gin (612dd032)"
)


def vit(size: str) -> Callable[[], Model]:
    """Return a builder of ViT-B/16 or ViT-G/14 with a class token and, before the classes, a layer of 768 with a tanh.

    Attention weights have no dropout; otherwise dropout is as in BERT, and after the positions.
    """

    def build() -> Model:
        layers, features, heads, hidden, patch = _SIZES[size]
        net = Builder(f"vit-{size}", f"ViT-{size.upper().replace('-', '/')}, {_PIXELS} pixels", source=_SOURCE)
        patches = net.conv("patches", net.input(3, _PIXELS, _PIXELS), features, patch, stride=patch)
        tokens = patches.positions + 1
        added = net.embedding("positions", tokens, features, rows=[tokens, 1], words=False)
        x = net.dropout("drop", net.add("positions.add", Tensor(features, tokens), added))
        for number in range(layers):
            x = _block(net, f"layer.{number}", x, heads, hidden)
        net.layer_norm("norm", x)
        y = net.tanh("representation.tanh", net.linear("representation", Tensor(features), _REPRESENTATION))
        net.loss("loss", net.linear("head", y, _CLASSES))
        return net.model()

    return build


def _block(net: Builder, name: str, x: Tensor, heads: int, hidden: int) -> Tensor:
    """Normalise before each branch; query, key and value have separate matrices, as in BERT."""
    y = net.linear(f"{name}.qkv", net.layer_norm(f"{name}.norm1", x), x.channels, count=3)
    each = Tensor(x.channels, y.height)
    weights = net.softmax(f"{name}.softmax", net.attention_matmul(f"{name}.scores", each, each, heads, y.height))
    y = net.attention_matmul(f"{name}.context", weights, each, heads, outputs=x.channels // heads)
    y = net.dropout(f"{name}.attention.drop", net.linear(f"{name}.output", y, x.channels))
    x = net.add(f"{name}.attention.add", x, y)
    y = net.gelu(f"{name}.gelu", net.linear(f"{name}.in", net.layer_norm(f"{name}.norm2", x), hidden))
    y = net.linear(f"{name}.out", net.dropout(f"{name}.in.drop", y), x.channels)
    return net.add(f"{name}.feed_forward.add", x, net.dropout(f"{name}.out.drop", y))
