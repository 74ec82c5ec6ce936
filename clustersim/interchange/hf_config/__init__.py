"""A Hugging Face `config.json` as a workload: the layers of its family with its sizes.

No weights, no network, no other library: each family is defined here from its paper and its code, with the
builder of the catalogue. Each entry of the table reads its sizes, checks them, and builds its layers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clustersim.errors import InputError, unknown_name
from clustersim.interchange.hf_config.bert import bert, roberta
from clustersim.interchange.hf_config.blocks import HfNet
from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.deepseek import deepseek_v2, deepseek_v3
from clustersim.interchange.hf_config.falcon import bloom, falcon, opt
from clustersim.interchange.hf_config.gemma import gemma, gemma2, gemma3_text
from clustersim.interchange.hf_config.gpt import gpt2, gpt_bigcode, gpt_neo, gpt_neox, gptj
from clustersim.interchange.hf_config.llama import llama, mistral, olmo2, phi3, qwen2, qwen3, starcoder2
from clustersim.interchange.hf_config.mixtral import gpt_oss, llama4_text, mixtral, qwen2_moe, qwen3_moe
from clustersim.interchange.hf_config.t5 import t5
from clustersim.interchange.hf_config.vit import vit
from clustersim.interchange.imported import Imported
from clustersim.registry import Registry

__all__ = ["FAMILIES", "import_hf"]

FAMILIES = Registry[Callable[[HfNet, Config], None]](
    "model_type",
    {
        "bert": bert,
        "bloom": bloom,
        "deepseek_v2": deepseek_v2,
        "deepseek_v3": deepseek_v3,
        "falcon": falcon,
        "gemma": gemma,
        "gemma2": gemma2,
        "gemma3_text": gemma3_text,
        "gpt2": gpt2,
        "gpt_bigcode": gpt_bigcode,
        "gpt_neo": gpt_neo,
        "gpt_neox": gpt_neox,
        "gpt_oss": gpt_oss,
        "gptj": gptj,
        "llama": llama,
        "llama4_text": llama4_text,
        "mistral": mistral,
        "mixtral": mixtral,
        "olmo2": olmo2,
        "opt": opt,
        "phi3": phi3,
        "qwen2": qwen2,
        "qwen2_moe": qwen2_moe,
        "qwen3": qwen3,
        "qwen3_moe": qwen3_moe,
        "roberta": roberta,
        "starcoder2": starcoder2,
        "t5": t5,
        "vit": vit,
    },
)


def import_hf(path: str | Path, tokens: int | None = None, name: str | None = None) -> Imported:
    """Return the model of a `config.json`; a sample is an image, or `tokens` tokens (by default at most 1024).

    The layers after the body (a language model's head, a classifier) are determined by `architectures`.
    """
    config = Config(Path(path), tokens)
    family = config.text("model_type")
    if family not in FAMILIES:
        wrong = unknown_name("model_type", family, FAMILIES).mistakes[0]
        raise InputError(config.mistake("model_type", wrong.message, wrong.got, wrong.allowed))
    config.of_class(family)
    called = name or Path(config.text("_name_or_path", family)).name or family
    net = HfNet(called, called, sample="sequence", source=f"{path}, a Hugging Face config of {family}")
    FAMILIES[family](net, config)
    return Imported(net.model(), tuple(config.notes))
