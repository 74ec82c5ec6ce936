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
from clustersim.interchange.hf_config.gpt import gpt2, gpt_neox
from clustersim.interchange.hf_config.llama import llama, mistral, mixtral, qwen2
from clustersim.interchange.hf_config.t5 import t5
from clustersim.interchange.hf_config.vit import vit
from clustersim.interchange.imported import Imported
from clustersim.registry import Registry

__all__ = ["FAMILIES", "import_hf"]

FAMILIES = Registry[Callable[[HfNet, Config], None]](
    "model_type",
    {
        "bert": bert,
        "gpt2": gpt2,
        "gpt_neox": gpt_neox,
        "llama": llama,
        "mistral": mistral,
        "mixtral": mixtral,
        "qwen2": qwen2,
        "roberta": roberta,
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
    called = name or Path(config.text("_name_or_path", family)).name or family
    net = HfNet(called, called, sample="sequence", source=f"{path}, a Hugging Face config of {family}")
    FAMILIES[family](net, config)
    return Imported(net.model(), tuple(config.notes))
