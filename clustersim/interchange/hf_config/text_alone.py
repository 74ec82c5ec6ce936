"""Gemma 3 and Llama 4 as they are published, with an image tower: the text model alone, and a note that says so."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.gemma import gemma3_text
from clustersim.interchange.hf_config.mixtral import llama4_text
from clustersim.model.blocks.net import BlockBuilder

_IMAGES = (
    "boi_token_id", "boi_token_index", "eoi_token_id", "eoi_token_index", "image_token_id", "image_token_index",
    "mm_tokens_per_image", "vision_config",
)  # fmt: skip


def gemma3(net: BlockBuilder, config: Config) -> None:
    """Build the text model of a Gemma 3."""
    _text_alone(net, config, "Gemma3ForConditionalGeneration", "gemma3_text", gemma3_text)


def llama4(net: BlockBuilder, config: Config) -> None:
    """Build the text model of a Llama 4."""
    _text_alone(net, config, "Llama4ForConditionalGeneration", "llama4_text", llama4_text)


def _text_alone(
    net: BlockBuilder, config: Config, architecture: str, text_type: str, build: Callable[[BlockBuilder, Config], None]
) -> None:
    config.architecture([architecture])
    text = config.part("text_config", text_type)
    config.parts.remove(text)  # its own builder checks it
    text.values.pop("architectures", None)
    text.values["tie_word_embeddings"] = config.flag("tie_word_embeddings")
    config.without_effect(*_IMAGES)
    config.check()
    config.notes.append("vision_config: images are left out, with their tower and its projection; a sample is text")
    build(net, text)
