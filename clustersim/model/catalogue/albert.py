"""ALBERT (Lan et al., 2020): a BERT whose layers share one set of weights, with narrow embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clustersim.model.builder import Builder
from clustersim.model.catalogue.bert import block, mlm_head
from clustersim.model.layer import Model

_VOCABULARY, _POSITIONS, _SEGMENTS, _NARROW = 30_000, 512, 2, 128
_SIZES = {"base": (12, 768, 12), "large": (24, 1024, 16)}  # layers, features, heads


def albert_mlm(size: str, tokens: int) -> Callable[[], Model]:
    """Return a builder of ALBERT `base` or `large` with a language-model head at every position, on `tokens` tokens.

    The gradient of the shared weights is complete when the first layer's backward pass, the last one, is done.
    """

    def build() -> Model:
        layers, features, heads = _SIZES[size]
        title = f"ALBERT {size}, {tokens} tokens, with MLM head"
        net = Builder(f"albert-{size}-mlm-seq{tokens}", title, sample="sequence", source="arXiv:1909.11942, section 3")
        x = net.embedding("embeddings", tokens, _NARROW, rows=[_VOCABULARY, _POSITIONS, _SEGMENTS])
        x = net.dropout("embeddings.drop", net.layer_norm("embeddings.norm", x))
        x = net.linear("widen", x, features)
        for number in range(layers):
            first = len(net.layers)
            x = block(net, f"layer.{number}", x, heads)
            if number:
                net.layers[first:] = [replace(layer, num_parameters=0) for layer in net.layers[first:]]
        mlm_head(net, x, _NARROW, _VOCABULARY)
        return net.model()

    return build
