"""Llama 2 (Touvron et al., 2023) and 3 (Grattafiori et al., 2024), InternLM, Aquila 2: decoders with gated layers.

All except the small Llama 2 have grouped queries; the output head has its own weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_LLAMA3 = "arXiv:2407.21783, table 3"
_LLAMA2 = (
    "foundation-model-stack/fms-fsdp, fms_fsdp/utils/config_utils.py (2024), and pytorch/torchtitan, "
    "torchtitan/models/llama/__init__.py"
)


_INTERNLM = (
    "InternLM/InternLM, configs/7B_sft.py, commit 00478761 (2023): words, layers, features, heads and MLP_RATIO 8/3, "
    "to a multiple of 256 as in Llama; biases of its attention are left out. doc/en/install.md, commits 0f5ee057 and "
    "8b039e11: Flash-Attention 1.0.5, with PyTorch 1.13.1"
)

_AQUILA = (
    "FlagOpen/FlagPerf, training/benchmarks/aquila2_7b_finetune/flagscale/flagscale_main.sh, commit 2fe09ab2 (2023): "
    "layers, features, heads, words, and what is between to a multiple of 256 as in Llama"
)


class _Size(NamedTuple):
    """Sizes of a model: `between` are the features of the feed-forward layers, `tokens` its first training sequence
    length.

    `flash` is the kernel of its attention.
    """

    layers: int
    features: int
    heads: int
    key_heads: int
    between: int
    words: int
    tokens: int
    source: str
    flash: int = 2


_FAMILIES = {"llama": "Llama", "internlm": "InternLM", "aquila2": "Aquila 2"}

LLAMA_SIZES = {
    "aquila2-7b": _Size(32, 4096, 32, 32, 11_008, 100_008, 2048, _AQUILA),
    "internlm-7b": _Size(32, 4096, 32, 32, 11_008, 103_168, 2048, _INTERNLM, flash=1),
    "llama-2-7b": _Size(32, 4096, 32, 32, 11_008, 32_000, 4096, _LLAMA2),
    "llama-2-13b": _Size(40, 5120, 40, 40, 13_824, 32_000, 4096, _LLAMA2),
    "llama-2-34b": _Size(48, 8192, 64, 8, 22_016, 32_000, 4096, _LLAMA2),
    "llama-2-70b": _Size(80, 8192, 64, 8, 28_672, 32_000, 4096, _LLAMA2),
    "llama-3.1-8b": _Size(32, 4096, 32, 8, 14_336, 128_256, 8192, _LLAMA3),
    "llama-3.1-70b": _Size(80, 8192, 64, 8, 28_672, 128_256, 8192, _LLAMA3),
    "llama-3.1-405b": _Size(126, 16_384, 128, 8, 53_248, 128_256, 8192, _LLAMA3),
}


def llama(name: str, tokens: int | None = None) -> Callable[[], Model]:
    """Return a builder of a Llama of `LLAMA_SIZES`; a sample is `tokens` tokens, by default its first training length.

    Attention is one fused kernel that skips masked pairs, PyTorch's default; InternLM's is FlashAttention 1.
    """

    def build() -> Model:
        """Return the model of this size, each block RMS norm, attention, and a gated feed-forward of SiLU."""
        size = LLAMA_SIZES[name]
        length = tokens or size.tokens
        spelt = name if length == size.tokens else f"{name}-seq{length}"
        family, *rest = name.split("-")
        title = f"{_FAMILIES[family]} {' '.join(rest).upper()}, {length} tokens"
        net = Builder(spelt, title, sample="sequence", source=size.source)
        x = net.embedding("embedding", length, size.features, rows=[size.words])
        for layer in range(size.layers):
            x = _block(net, f"h.{layer}", x, size)
        x = net.rms_norm("norm", x)
        net.loss("loss", net.linear("head", x, size.words, bias=False))
        return net.model()

    return build


_ANY = re.compile(r"llama-?(2|3\.1)-(\d+b)-seq(\d+)", re.IGNORECASE)


def any_llama(name: str) -> Callable[[], Model] | None:
    """Return a builder of a Llama whose name gives a sequence length, None for other names.

    >>> any_llama("llama-3.1-8b-seq131072")().title
    'Llama 3.1 8B, 131072 tokens'
    """
    found = _ANY.fullmatch(name)
    known = found and f"llama-{found[1]}-{found[2].lower()}"
    if found is None or known not in LLAMA_SIZES:
        return None
    tokens = int(found[3])
    if not tokens:
        allowed = "a number of tokens, as in llama-3.1-8b-seq131072"
        raise InputError(f"'{name}' has no tokens: write {allowed}", got=name, allowed=allowed)
    return llama(known, tokens)


def _block(net: Builder, name: str, x: Tensor, size: _Size) -> Tensor:
    normed = net.rms_norm(f"{name}.norm1", x)
    y = attention(net, f"{name}.attention", normed, size.heads, size.key_heads, size.flash)
    x = net.add(f"{name}.attention.add", x, y)
    gated = net.linear(f"{name}.feed_forward.in", net.rms_norm(f"{name}.norm2", x), size.between, bias=False, count=2)
    y = net.gate(f"{name}.feed_forward.gate", gated)
    return net.add(f"{name}.feed_forward.add", x, net.linear(f"{name}.feed_forward.out", y, x.channels, bias=False))


def attention(net: Builder, name: str, x: Tensor, heads: int, key_heads: int = 8, flash: int = 2) -> Tensor:
    """Add attention in which groups of query heads share a key and a value (Ainslie et al., 2023), with one QKV matrix.

    The mask is causal. Llama 3 and Mixtral have eight keys.
    """
    features, tokens = x.channels, x.height
    each = features // heads
    query, key = Tensor(features, tokens), Tensor(key_heads * each, tokens)
    net.rotary(f"{name}.rotary", net.linear(f"{name}.qkv", x, features + 2 * key.channels, bias=False), query, key)
    context = net.fused_attention(name, query, key, heads, causal=True, flash=flash)
    return net.linear(f"{name}.output", context, features, bias=False)
