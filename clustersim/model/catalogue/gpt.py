"""GPT-2 (Radford et al., 2019), GPT-3 (Brown et al., 2020), and the GPT sizes of Megatron-LM's measurements.

Decoders whose embedding is also the output head, except those of Megatron-Core.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from clustersim.errors import InputError
from clustersim.model.builder import Builder, Tensor
from clustersim.model.catalogue.transformer import attention, causal_attention, feed_forward
from clustersim.model.layer import Model

_VOCABULARY = 50_257
_TOKENS = 2048
_GPT2 = "Language models are unsupervised multitask learners (2019), table 2"
_GPT3 = "arXiv:2005.14165, table 2.1"

MEGATRON_VOCABULARY = 51_200
"""GPT-2's 50,257 words, padded so that eight GPUs have multiples of 128 of them."""

MEGATRON_SIZES = {  # layers, features, heads, tokens
    "megatron-1b": (24, 1920, 15, 1024),
    "megatron-2b": (30, 2304, 18, 1024),
    "megatron-4b": (36, 3072, 24, 1024),
    "megatron-8b": (42, 4096, 32, 1024),
    "megatron-1.2b": (40, 1536, 16, 1024),
    "megatron-2.5b": (54, 1920, 20, 1024),
    "megatron-4.2b": (64, 2304, 24, 1024),
    "megatron-8.3b": (72, 3072, 32, 1024),
    "megatron-1.7b": (24, 2304, 24, 2048),
    "megatron-3.6b": (30, 3072, 32, 2048),
    "megatron-7.5b": (36, 4096, 32, 2048),
    "megatron-18b": (40, 6144, 48, 2048),
    "megatron-39b": (48, 8192, 64, 2048),
    "megatron-76b": (60, 10_240, 80, 2048),
    "megatron-145b": (80, 12_288, 96, 2048),
    "megatron-175b": (96, 12_288, 96, 2048),
    "megatron-310b": (96, 16_384, 128, 2048),
    "megatron-530b": (105, 20_480, 128, 2048),
    "megatron-1t": (128, 25_600, 160, 2048),
}
MEGATRON_CORE_VOCABULARY, MEGATRON_CORE_TOKENS = 131_072, 4096
MEGATRON_CORE_SIZES = {  # layers, features, heads
    "megatron-core-1.7b": (24, 2048, 16),
    "megatron-core-16b": (32, 6144, 48),
    "megatron-core-70b": (84, 8192, 64),
}
_MEGATRON_CORE = (
    "NVIDIA/Megatron-LM, README of 2024, words and tokens of images/model_table.png, and issue 1571 (2025), layers, "
    "features and heads of its rows; assumed: a last layer with weights of its own, by which the sizes are those named"
)
_MEGATRON_SOURCES = {
    (
        "1b",
        "2b",
        "4b",
        "8b",
    ): "Megatron-LM, images/scaling-mp.png (2020); assumed: the sizes whose FLOP by the formula of "
    "arXiv:2104.04473, section 4.1, are its TFLOP/s times its seconds, to three digits",
    ("1.2b", "2.5b", "4.2b", "8.3b"): "recalled: arXiv:1909.08053, table 1",
}
_MEGATRON = "arXiv:2104.04473, table 1"


def gpt2(size: str) -> Callable[[], Model]:
    """Return a builder of GPT-2 `small`, `medium`, `large` or `xl`; a sample is 1024 tokens."""
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


def megatron(name: str) -> Callable[[], Model]:
    """Return a builder of a GPT of Megatron-LM's measurements: `MEGATRON_SIZES`."""
    layers, features, heads, tokens = MEGATRON_SIZES[name]
    size = name.removeprefix("megatron-")
    source = next((text for sizes, text in _MEGATRON_SOURCES.items() if size in sizes), _MEGATRON)
    title = f"Megatron-LM's GPT {size.upper()}"
    return lambda: gpt(name, title, layers, features, heads, tokens, source, vocabulary=MEGATRON_VOCABULARY)


def megatron_core(name: str) -> Callable[[], Model]:
    """Return a builder of a GPT of Megatron-Core's measurements on H100, with fused attention."""
    layers, features, heads = MEGATRON_CORE_SIZES[name]
    title = f"Megatron-Core's GPT {name.removeprefix('megatron-core-').upper()}"
    tokens, vocabulary = MEGATRON_CORE_TOKENS, MEGATRON_CORE_VOCABULARY
    return lambda: gpt(name, title, layers, features, heads, tokens, _MEGATRON_CORE, vocabulary, fused=True, tied=False)


_ANY = re.compile(r"gpt-(\d+)x(\d+)x(\d+)(?:-seq(\d+))?(?:-vocab(\d+))?(-fused)?(-no-dropout)?")


def any_gpt(name: str) -> Callable[[], Model] | None:
    """Return a builder of a GPT whose name gives its sizes, None for other names.

    `gpt-96x12288x96-seq2048-vocab51200` has 96 layers of 12,288 features and 96 heads; by default 2048 tokens and
    GPT-2's vocabulary. With `-fused` at the end attention is one kernel, which skips masked pairs; after that
    `-no-dropout` removes dropout.

    >>> any_gpt("gpt-12x768x12-seq1024")().num_parameters
    124439808
    """
    found = _ANY.fullmatch(name)
    if found is None or (found[7] and not found[6]):
        return None
    layers, features, heads, tokens, vocabulary = (int(size) if size else 0 for size in found.groups()[:5])
    if not layers * features * heads or features % heads or (found[4] and not tokens) or (found[5] and not vocabulary):
        allowed = "gpt-LAYERSxFEATURESxHEADS, heads that divide the features"
        raise InputError(f"'{name}' is no GPT: write {allowed}", got=name, allowed=allowed)
    tokens, vocabulary = tokens or _TOKENS, vocabulary or _VOCABULARY
    title = f"GPT of {layers} layers, {features} features and {heads} heads"
    sizes, fused, drops = (layers, features, heads, tokens), found[6] is not None, found[7] is None
    return lambda: gpt(name, title, *sizes, "named by its sizes", vocabulary, fused, drops=drops)


def gpt(
    name: str,
    title: str,
    layers: int,
    features: int,
    heads: int,
    tokens: int,
    source: str = "",
    vocabulary: int = _VOCABULARY,
    fused: bool = False,
    tied: bool = True,
    drops: bool = True,
) -> Model:
    """Return a GPT with V h + P h + L (12 h^2 + 13 h) + 2 h parameters.

    V words and P positions of h features, L layers. The output head uses the embedding's matrix if it is `tied`, so
    that its gradient is complete when the embedding's is, or has V h more. `fused` attention is one kernel, and only
    with it can the model be without dropout (`drops`).
    """
    net = Builder(name, f"{title}, {tokens} tokens", sample="sequence", source=source)
    x = net.embedding("embedding", tokens, features, rows=[vocabulary, tokens])
    x = net.dropout("drop", x) if drops else x
    for number in range(layers):
        x = _block(net, f"h.{number}", x, heads, fused, drops)
    x = net.layer_norm("norm", x)
    net.loss("loss", net.linear("head", x, vocabulary, bias=False, tied=tied))
    return net.model()


def _block(net: Builder, name: str, x: Tensor, heads: int, fused: bool, drops: bool) -> Tensor:
    """Normalise before each branch, as in GPT-2."""
    y = net.layer_norm(f"{name}.norm1", x)
    if fused:
        y = causal_attention(net, f"{name}.attention", y, heads, drops)
    else:
        y = attention(net, f"{name}.attention", y, heads, fused=True)
    x = net.add(f"{name}.attention.add", x, y)
    y = feed_forward(net, f"{name}.feed_forward", net.layer_norm(f"{name}.norm2", x), drops)
    return net.add(f"{name}.feed_forward.add", x, y)
