"""Decoders that are used most in 2026: Llama 3.2, Mistral, Qwen3, DeepSeek-V2 and V3, gpt-oss, Gemma 3, Phi-4.

Their blocks are those of `clustersim.model.blocks`, with one product for query, key and value. Experts are evenly
loaded; `parallelism.expert_imbalance` is applied in addition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.model.blocks.attention import WHOLE, Grouped, Mask
from clustersim.model.blocks.decoder import Frame, four_norm_decoder, pre_norm_decoder
from clustersim.model.blocks.feed_forward import Experts, experts_layer, gated_feed_forward
from clustersim.model.blocks.latent import Latent, latent_decoder
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.layer import Model

_LLAMA = "pytorch/torchtune, torchtune/models/llama3_2/_model_builders.py, commit 2cb2470f (2024)"
_MISTRAL = (
    "recalled: arXiv:2310.06825, table 1, and transformers, MistralConfig (5.24): words, window, features between"
)
_QWEN = "pytorch/torchtune, torchtune/models/qwen3/_model_builders.py, commit 010412e0 (2025)"
_QWEN_MOE = (
    "pytorch/torchtitan, torchtitan/models/qwen3/__init__.py, commit 0310b491; recalled: 235B-A22B's sizes by "
    "Qwen/Qwen3-235B-A22B's config"
)
_DEEPSEEK = "pytorch/torchtitan, torchtitan/models/deepseek_v3/__init__.py, commit 0014ac2c"
_DEEPSEEK_TOKENS = "; arXiv:2412.19437, sections 2.2 and 4.2: one more predicted token, 4,096 tokens"
_GPT_OSS = "openai/gpt-oss, gpt_oss/torch/model.py, commit 0568dfc9: 120B"
_GPT_OSS_20B = f"{_GPT_OSS}; recalled: arXiv:2508.10925, table 1: layers and experts of 20B"
_GEMMA = (
    "recalled: arXiv:2503.19786, tables 1 and 2, and google/gemma-3's configs: sizes, windows of 1,024, 32,768 tokens"
)
_PHI = (
    "pytorch/torchtune, torchtune/models/phi4/_model_builders.py, commit 235c0fe2; recalled: arXiv:2412.08905: 4,096 "
    "tokens"
)

_EVERY = 6  # of Gemma 3's layers one sees all tokens, the others a window
_GEMMA_WINDOW = 1024
_GPT_OSS_WINDOW = 128

Rest = Callable[[BlockBuilder, Frame], None]
"""Adds a decoder of a frame."""


class Size(NamedTuple):
    """A decoder: its frame, what is in its blocks, and the tokens of a sample in its first training."""

    title: str
    layers: int
    features: int
    words: int
    tokens: int
    blocks: Rest
    source: str
    tied: bool = False


def _gated(attention: Grouped, width: int, mask: Mask = WHOLE) -> Rest:
    """Return a Llama's blocks."""
    return lambda net, frame: pre_norm_decoder(
        net,
        frame,
        attention,
        [mask] * frame.layers,
        lambda name, _, x: gated_feed_forward(net, name, x, width, "silu"),
    )


def _sparse(attention: Grouped, experts: Experts, masks: tuple[Mask, ...] = (WHOLE,)) -> Rest:
    """Return blocks with experts; the masks of layers alternate."""
    return lambda net, frame: pre_norm_decoder(
        net,
        frame,
        attention,
        [masks[number % len(masks)] for number in range(frame.layers)],
        lambda name, _, x: experts_layer(net, name.replace("feed_forward", "experts"), x, experts),
    )


def _qwen(heads: int, kv_heads: int) -> Grouped:
    return Grouped(heads, kv_heads, 128, joined=True, norm="head")


def _deepseek(latent: Latent, experts: Experts, dense: list[int], predicted: int = 0) -> Rest:
    return lambda net, frame: latent_decoder(net, frame, latent, experts, dense, predicted)


def _gpt_oss(experts: int) -> Rest:
    attention = Grouped(64, 8, 64, bias=True, output_bias=True, joined=True, sinks=True)
    masks = Mask(window=_GPT_OSS_WINDOW), Mask()
    return _sparse(attention, Experts(experts, 4, 2880, "silu", bias=True), masks)


def _gemma(heads: int, kv_heads: int, width: int, head: int) -> Rest:
    attention = Grouped(heads, kv_heads, head, joined=True, norm="head")
    masks = [Mask() if number % _EVERY == _EVERY - 1 else Mask(window=_GEMMA_WINDOW) for number in range(_EVERY)]
    return lambda net, frame: four_norm_decoder(
        net, frame, attention, [masks[number % _EVERY] for number in range(frame.layers)], width, "gelu_pytorch_tanh"
    )


_V3 = Latent(heads=128, query_rank=1536, key_rank=512, plain=128, rotated=64, values=128)
_V3_EXPERTS = Experts(256, 8, 2048, "silu", shared=2048)
_V2_LITE = Latent(heads=16, query_rank=None, key_rank=512, plain=128, rotated=64, values=128)
_WORDS = 151_936  # of Qwen3

DECODER_SIZES = {
    "llama-3.2-1b": Size(
        "Llama 3.2 1B", 16, 2048, 128_256, 8192, _gated(Grouped(32, 8, 64, joined=True), 8192), _LLAMA, tied=True
    ),
    "llama-3.2-3b": Size(
        "Llama 3.2 3B", 28, 3072, 128_256, 8192, _gated(Grouped(24, 8, 128, joined=True), 8192), _LLAMA, tied=True
    ),
    "mistral-7b": Size(
        "Mistral 7B v0.1", 32, 4096, 32_000, 8192,
        _gated(Grouped(32, 8, 128, joined=True), 14_336, Mask(window=4096)), _MISTRAL,
    ),
    "qwen3-0.6b": Size("Qwen3 0.6B", 28, 1024, _WORDS, 4096, _gated(_qwen(16, 8), 3072), _QWEN, tied=True),
    "qwen3-4b": Size("Qwen3 4B", 36, 2560, _WORDS, 4096, _gated(_qwen(32, 8), 9728), _QWEN, tied=True),
    "qwen3-8b": Size("Qwen3 8B", 36, 4096, _WORDS, 4096, _gated(_qwen(32, 8), 12_288), _QWEN),
    "qwen3-14b": Size("Qwen3 14B", 40, 5120, _WORDS, 4096, _gated(_qwen(40, 8), 17_408), _QWEN),
    "qwen3-32b": Size("Qwen3 32B", 64, 5120, _WORDS, 4096, _gated(_qwen(64, 8), 25_600), _QWEN),
    "qwen3-30b-a3b": Size(
        "Qwen3 30B-A3B", 48, 2048, _WORDS, 4096, _sparse(_qwen(32, 4), Experts(128, 8, 768, "silu")), _QWEN_MOE
    ),
    "qwen3-235b-a22b": Size(
        "Qwen3 235B-A22B", 94, 4096, _WORDS, 4096, _sparse(_qwen(64, 4), Experts(128, 8, 1536, "silu")), _QWEN_MOE
    ),
    "deepseek-v2-lite": Size(
        "DeepSeek-V2 Lite", 27, 2048, 102_400, 4096,
        _deepseek(_V2_LITE, Experts(64, 6, 1408, "silu", shared=2 * 1408), [10_944]), _DEEPSEEK,
    ),
    "deepseek-v3": Size(
        "DeepSeek-V3, without the prediction of more tokens", 61, 7168, 129_280, 4096,
        _deepseek(_V3, _V3_EXPERTS, [18_432] * 3), _DEEPSEEK + _DEEPSEEK_TOKENS,
    ),
    "deepseek-v3-mtp": Size(
        "DeepSeek-V3, with the prediction of one token more", 61, 7168, 129_280, 4096,
        _deepseek(_V3, _V3_EXPERTS, [18_432] * 3, predicted=1), _DEEPSEEK + _DEEPSEEK_TOKENS,
    ),
    "gpt-oss-20b": Size("gpt-oss 20B", 24, 2880, 201_088, 4096, _gpt_oss(32), _GPT_OSS_20B),
    "gpt-oss-120b": Size("gpt-oss 120B", 36, 2880, 201_088, 4096, _gpt_oss(128), _GPT_OSS),
    "gemma-3-12b": Size(
        "Gemma 3 12B, its text model", 48, 3840, 262_208, 32_768, _gemma(16, 8, 15_360, 256), _GEMMA, tied=True
    ),
    "gemma-3-27b": Size(
        "Gemma 3 27B, its text model", 62, 5376, 262_208, 32_768, _gemma(32, 16, 21_504, 128), _GEMMA, tied=True
    ),
    "phi-4": Size("Phi-4", 40, 5120, 100_352, 4096, _gated(Grouped(40, 10, 128, joined=True), 17_920), _PHI),
}  # fmt: skip


def modern_decoder(name: str, tokens: int | None = None) -> Callable[[], Model]:
    """Return a builder of a decoder of `DECODER_SIZES`; a sample is `tokens` tokens, by default as first trained."""

    def build() -> Model:
        """Return the model of this size."""
        size = DECODER_SIZES[name]
        length = tokens or size.tokens
        spelt = name if length == size.tokens else f"{name}-seq{length}"
        net = BlockBuilder(spelt, f"{size.title}, {length} tokens", sample="sequence", source=size.source)
        size.blocks(net, Frame(size.features, size.layers, size.words, length, size.tied))
        return net.model()

    return build


_ANY = re.compile(r"(.+)-seq(\d+)")


def any_decoder(name: str) -> Callable[[], Model] | None:
    """Return a builder of a decoder whose name gives a sequence length, None for other names.

    >>> any_decoder("qwen3-8b-seq32768")().title
    'Qwen3 8B, 32768 tokens'
    """
    found = _ANY.fullmatch(name.lower())
    if found is None or found[1] not in DECODER_SIZES:
        return None
    tokens = int(found[2])
    if not tokens:
        allowed = f"a number of tokens, as in {found[1]}-seq8192"
        raise InputError(f"'{name}' has no tokens: write {allowed}", got=name, allowed=allowed)
    return modern_decoder(found[1], tokens)
