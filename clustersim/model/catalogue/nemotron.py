"""Nemotron-4 15B (Parmar et al., 2024): a decoder with grouped queries and squared ReLUs, on 4,096 tokens."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.catalogue.llama import attention
from clustersim.model.layer import Model

_SOURCE = (
    "NeMo-Framework-Launcher, launcher_scripts/conf/training/nemotron/nemotron_15b.yaml, commit 089b90e6 (2024), "
    "256,000 words: NVIDIA/dgxc-benchmarking, nemotron/README_15b.md, commit 0b71cfda (2025), notes"
)
_LAYERS, _FEATURES, _HEADS, _KEY_HEADS, _BETWEEN, _VOCABULARY = 32, 6144, 48, 8, 24_576, 256_000
_TOKENS = 4096


def nemotron_4_15b() -> Model:
    """Return Nemotron-4 15B: 12.5 G parameters in blocks, and 3.1 G of words, half of them the output head's.

    Rotary positions rotate half of each head's features; they are counted as one kernel over all of them. The squared
    ReLU is counted as a ReLU, which reads and writes as much.
    """
    net = Builder("nemotron-4-15b", f"Nemotron-4 15B, {_TOKENS} tokens", sample="sequence", source=_SOURCE)
    x = net.embedding("embedding", _TOKENS, _FEATURES, rows=[_VOCABULARY])
    for number in range(_LAYERS):
        x = _block(net, f"h.{number}", x)
    x = net.layer_norm("norm", x)
    net.loss("loss", net.linear("head", x, _VOCABULARY, bias=False))
    return net.model()


def _block(net: Builder, name: str, x: Tensor) -> Tensor:
    y = attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), _HEADS, _KEY_HEADS)
    x = net.add(f"{name}.attention.add", x, y)
    y = net.linear(f"{name}.feed_forward.in", net.layer_norm(f"{name}.norm2", x), _BETWEEN, bias=False)
    y = net.linear(f"{name}.feed_forward.out", net.relu(f"{name}.feed_forward.relu", y), _FEATURES, bias=False)
    return net.add(f"{name}.feed_forward.add", x, y)
