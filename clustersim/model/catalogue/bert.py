"""BERT (Devlin et al., 2019): the encoder with its embeddings and pooler, uncased vocabulary."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.catalogue.transformer import attention, feed_forward
from clustersim.model.layer import Model

_VOCABULARY, _POSITIONS, _SEGMENTS = 30_522, 512, 2
_SIZES = {"base": (12, 768, 12), "large": (24, 1024, 16)}  # layers, features, heads
DEFAULT_TOKENS = 128
"""Nine tenths of BERT's own pre-training steps use sequences of this length (section A.2 of the paper)."""


def bert(size: str, tokens: int = DEFAULT_TOKENS, mlm: bool = False) -> Callable[[], Model]:
    """Return a builder of BERT `base` or `large` on sequences of `tokens` tokens.

    The task's head is left out: predicting 15 % of the words adds 4 % FLOP to pre-training `base` and 1.6 % to `large`,
    and a classifier adds almost nothing. With `mlm` the model has a head that predicts every word, as in programs that
    select the masked ones afterwards.
    """

    def build() -> Model:
        layers, features, heads = _SIZES[size]
        name = f"bert-{size}-mlm" if mlm else f"bert-{size}"
        name = name if tokens == DEFAULT_TOKENS else f"{name}-seq{tokens}"
        title = f"BERT {size}, {tokens} tokens" + (", with MLM head" if mlm else "")
        net = Builder(name, title, sample="sequence", source="arXiv:1810.04805, section 3")
        x = net.embedding("embeddings", tokens, features, rows=[_VOCABULARY, _POSITIONS, _SEGMENTS])
        x = net.dropout("embeddings.drop", net.layer_norm("embeddings.norm", x))
        for number in range(layers):
            x = block(net, f"layer.{number}", x, heads)
        if mlm:
            mlm_head(net, x, features, _VOCABULARY)
        else:
            net.loss("loss", net.fully_connected("pooler", Tensor(features), features))
        return net.model()

    return build


def mlm_head(net: Builder, x: Tensor, features: int, vocabulary: int) -> None:
    """Add the pooler and the head that scores the whole vocabulary at every position, with the embedding's weights."""
    net.fully_connected("pooler", Tensor(x.channels), x.channels)
    y = net.layer_norm("mlm.norm", net.gelu("mlm.gelu", net.linear("mlm.transform", x, features)))
    net.loss("loss", net.linear("mlm.decoder", y, vocabulary, tied=True))


def block(net: Builder, name: str, x: Tensor, heads: int) -> Tensor:
    """Add a layer that normalises after each sum, as in BERT."""
    y = attention(net, f"{name}.attention", x, heads, fused=False)
    x = net.layer_norm(f"{name}.attention.norm", net.add(f"{name}.attention.add", x, y))
    y = feed_forward(net, f"{name}.feed_forward", x)
    return net.layer_norm(f"{name}.feed_forward.norm", net.add(f"{name}.feed_forward.add", x, y))
