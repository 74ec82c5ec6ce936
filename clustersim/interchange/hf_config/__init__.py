"""A Hugging Face `config.json` as a workload: the layers of its family with its sizes.

No weights, no network, no other library: each family is defined here from its paper and its code, with the
builder of the catalogue. Each entry of the table reads its sizes, checks them, and builds its layers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clustersim.errors import InputError, unknown_name
from clustersim.interchange.hf_config.bart import bart, mbart
from clustersim.interchange.hf_config.bert import bert, roberta
from clustersim.interchange.hf_config.clip import clip, siglip
from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.convolutions import convnext, resnet
from clustersim.interchange.hf_config.deberta import deberta_v2
from clustersim.interchange.hf_config.deepseek import deepseek_v2, deepseek_v3
from clustersim.interchange.hf_config.distilbert import distilbert, electra
from clustersim.interchange.hf_config.falcon import bloom, falcon, opt
from clustersim.interchange.hf_config.gemma import gemma, gemma2, gemma3_text
from clustersim.interchange.hf_config.gpt import gpt2, gpt_bigcode, gpt_neo, gpt_neox, gptj
from clustersim.interchange.hf_config.llama import llama, mistral, olmo2, phi3, qwen2, qwen3, starcoder2
from clustersim.interchange.hf_config.llava import llava
from clustersim.interchange.hf_config.mamba import mamba, mamba2
from clustersim.interchange.hf_config.mixtral import gpt_oss, llama4_text, mixtral, qwen2_moe, qwen3_moe
from clustersim.interchange.hf_config.qwen_vl import qwen2_5_vl
from clustersim.interchange.hf_config.swin import swin
from clustersim.interchange.hf_config.t5 import mt5, t5, umt5
from clustersim.interchange.hf_config.text_alone import gemma3, llama4
from clustersim.interchange.hf_config.vit import dinov2, vit
from clustersim.interchange.hf_config.whisper import whisper
from clustersim.interchange.imported import Imported
from clustersim.kernels.fused_attention import is_fused
from clustersim.model.blocks.net import Attention, BlockBuilder
from clustersim.registry import Registry

__all__ = ["FAMILIES", "import_hf"]

FAMILIES = Registry[Callable[[BlockBuilder, Config], None]](
    "model_type",
    {
        "bart": bart,
        "bert": bert,
        "bloom": bloom,
        "clip": clip,
        "convnext": convnext,
        "deberta-v2": deberta_v2,
        "deepseek_v2": deepseek_v2,
        "deepseek_v3": deepseek_v3,
        "dinov2": dinov2,
        "distilbert": distilbert,
        "electra": electra,
        "falcon": falcon,
        "gemma": gemma,
        "gemma2": gemma2,
        "gemma3": gemma3,
        "gemma3_text": gemma3_text,
        "gpt2": gpt2,
        "gpt_bigcode": gpt_bigcode,
        "gpt_neo": gpt_neo,
        "gpt_neox": gpt_neox,
        "gpt_oss": gpt_oss,
        "gptj": gptj,
        "llama": llama,
        "llama4": llama4,
        "llama4_text": llama4_text,
        "llava": llava,
        "mamba": mamba,
        "mamba2": mamba2,
        "mbart": mbart,
        "mistral": mistral,
        "mixtral": mixtral,
        "mt5": mt5,
        "olmo2": olmo2,
        "opt": opt,
        "phi3": phi3,
        "qwen2": qwen2,
        "qwen2_5_vl": qwen2_5_vl,
        "qwen2_moe": qwen2_moe,
        "qwen3": qwen3,
        "qwen3_moe": qwen3_moe,
        "resnet": resnet,
        "roberta": roberta,
        "siglip": siglip,
        "starcoder2": starcoder2,
        "swin": swin,
        "t5": t5,
        "umt5": umt5,
        "vit": vit,
        "whisper": whisper,
    },
)

_FUSED = "attention is fused (sdpa), as by default in transformers; --attention eager computes it kernel by kernel"
_FUSED_ALL_THE_SAME = (
    "attention is fused (sdpa), which transformers does not have for this family; --attention eager is what it does"
)


def import_hf(
    path: str | Path,
    tokens: int | None = None,
    name: str | None = None,
    image_size: int | None = None,
    attention: Attention | None = None,
) -> Imported:
    """Return the model of a `config.json`; a sample is an image, `tokens` tokens (by default at most 1024), or both.

    The layers after the body (a language model's head, a classifier) are determined by `architectures`. An image has
    `image_size` pixels a side, by default as many as the config says. Attention is fused (`sdpa`) or `eager`; the
    default is what the config says, or fused.
    """
    config = Config(Path(path), tokens)
    config.requested_image_size = image_size
    family = config.text("model_type")
    if family not in FAMILIES:
        wrong = unknown_name("model_type", family, FAMILIES).mistakes[0]
        raise InputError(config.mistake("model_type", wrong.message, wrong.got, wrong.allowed))
    config.of_class(family)
    called = name or Path(config.text("_name_or_path", family)).name or family
    net = BlockBuilder(called, called, sample="sequence", source=f"{path}, a Hugging Face config of {family}")
    net.attention = attention or _attention_of(config)
    FAMILIES[family](net, config)
    if image_size is not None and not config.reads_image_size:
        raise InputError(f"a sample of {family} has no image; remove --image-size", got=str(image_size))
    _check_attention(net, family, attention, config)
    return Imported(net.model(), tuple(config.notes))


def _attention_of(config: Config) -> Attention:
    """Return how a config says that attention runs; fused if it does not."""
    eager = any(config.values.get(key) == "eager" for key in ("attn_implementation", "_attn_implementation"))
    return "eager" if eager else "sdpa"


def _check_attention(net: BlockBuilder, family: str, asked: Attention | None, config: Config) -> None:
    """Refuse a kind of attention that the family does not have; note the default."""
    products = [layer for layer in net.layers if layer.op == "matmul"]
    kinds = sorted({"sdpa" if is_fused(layer) else "eager" for layer in products})
    if asked is not None and asked not in kinds:
        allowed = f"--attention {kinds[0]}" if kinds else "no --attention"
        message = f"{family} has {f'{kinds[0]} attention alone' if kinds else 'no attention'}; use {allowed}"
        raise InputError(message, got=f"--attention {asked}", allowed=allowed)
    if asked is None and kinds == ["sdpa"]:
        config.notes.append(_FUSED if config.kind.sdpa else _FUSED_ALL_THE_SAME)
