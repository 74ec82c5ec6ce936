"""GPT-2 (Radford et al., 2019) and GPT-3 (Brown et al., 2020): decoders whose embedding is also the last layer."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.workload.builder import Builder, Tensor
from clustersim.workload.catalogue.transformer import attention, feed_forward
from clustersim.workload.layer import Model

_VOCABULARY = 50_257
_GPT2 = "Language models are unsupervised multitask learners (2019), table 2"
_GPT3 = "arXiv:2005.14165, table 2.1"


def gpt2(size: str) -> Callable[[], Model]:
    """Return what builds GPT-2 `small`, `medium`, `large` or `xl`; a sample is 1024 tokens."""
    layers, features, heads = {
        "small": (12, 768, 12),
        "medium": (24, 1024, 16),
        "large": (36, 1280, 20),
        "xl": (48, 1600, 25),
    }[size]
    return lambda: gpt(f"gpt2-{size}", f"GPT-2 {size}", layers, features, heads, tokens=1024, source=_GPT2)


def gpt3() -> Model:
    """Return GPT-3 of 175 G parameters on 2048 tokens, with dense attention in every layer.

    The paper's locally banded layers are left out: they would halve the scores, 2.7 % of the FLOP.
    """
    return gpt("gpt-3", "GPT-3 175B", layers=96, features=12_288, heads=96, tokens=2048, source=_GPT3)


def gpt(name: str, title: str, layers: int, features: int, heads: int, tokens: int, source: str = "") -> Model:
    """Return a GPT with V h + P h + L (12 h^2 + 13 h) + 2 h parameters.

    V words and P positions of h features, L layers. The last product uses the embedding's matrix, so its
    gradient is complete when the embedding's is.
    """
    net = Builder(name, f"{title}, {tokens} tokens", sample="sequence", source=source)
    x = net.embedding("embedding", tokens, features, rows=[_VOCABULARY, tokens])
    x = net.dropout("drop", x)
    for number in range(layers):
        x = _block(net, f"h.{number}", x, heads)
    x = net.layer_norm("norm", x)
    net.loss("loss", net.linear("head", x, _VOCABULARY, bias=False, tied=True))
    return net.model()


def _block(net: Builder, name: str, x: Tensor, heads: int) -> Tensor:
    """Normalise before each branch, as GPT-2 does."""
    y = attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), heads, fused=True)
    x = net.add(f"{name}.attention.add", x, y)
    y = feed_forward(net, f"{name}.feed_forward", net.layer_norm(f"{name}.norm2", x))
    return net.add(f"{name}.feed_forward.add", x, y)
