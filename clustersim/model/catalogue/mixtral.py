"""Mixtral 8x7B (Jiang et al., 2024): a decoder with eight experts a layer, of which each token uses two."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.catalogue.llama import attention
from clustersim.model.layer import Model

_SOURCE = "arXiv:2401.04088, table 1"
_LAYERS, _FEATURES, _HEADS, _BETWEEN, _VOCABULARY = 32, 4096, 32, 14_336, 32_000
_EXPERTS, _ROUTED, _TOKENS = 8, 2, 4096


def mixtral() -> Model:
    """Return Mixtral 8x7B on sequences of 4,096 tokens: 46.7 G parameters, 12.9 G of which a token uses.

    Tokens are spread evenly over the experts; `parallelism.expert_imbalance` is applied in addition.
    """
    net = Builder("mixtral-8x7b", f"Mixtral 8x7B, {_TOKENS} tokens", sample="sequence", source=_SOURCE)
    x = net.embedding("embedding", _TOKENS, _FEATURES, rows=[_VOCABULARY])
    for number in range(_LAYERS):
        x = _block(net, f"h.{number}", x)
    x = net.rms_norm("norm", x)
    net.loss("loss", net.linear("head", x, _VOCABULARY, bias=False))
    return net.model()


def _block(net: Builder, name: str, x: Tensor) -> Tensor:
    y = attention(net, f"{name}.attention", net.rms_norm(f"{name}.norm1", x), _HEADS)
    x = net.add(f"{name}.attention.add", x, y)
    y = net.rms_norm(f"{name}.norm2", x)
    net.router(f"{name}.router", y, _EXPERTS)
    gated = net.experts(f"{name}.experts.in", y, _BETWEEN, _EXPERTS, _ROUTED, count=2)
    made = net.experts(f"{name}.experts.out", net.gate(f"{name}.experts.gate", gated), x.channels, _EXPERTS, _ROUTED)
    return net.add(f"{name}.experts.add", x, net.weighted_sum(f"{name}.experts.sum", made))
