"""LLaVA (Liu et al., 2023): the patches of an image, projected, are the first tokens of a language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clustersim.interchange.hf_config.clip import Vision, clip_vision, first_token, siglip_vision, vision_of
from clustersim.interchange.hf_config.config import DEFAULT_TOKENS, Config
from clustersim.interchange.hf_config.gemma import gemma, gemma2
from clustersim.interchange.hf_config.llama import llama, mistral, olmo2, phi3, qwen2, qwen3
from clustersim.interchange.hf_config.mixtral import mixtral
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

TEXTS: dict[str, Callable[[BlockBuilder, Config], None]] = {
    "gemma": gemma, "gemma2": gemma2, "llama": llama, "mistral": mistral, "mixtral": mixtral, "olmo2": olmo2,
    "phi3": phi3, "qwen2": qwen2, "qwen3": qwen3,
}  # fmt: skip
"""Language models of a `text_config`."""
VISIONS: dict[str, Callable[[BlockBuilder, Vision], Tensor]] = {
    "clip_vision_model": lambda net, vision: net.layer_norm("vision.post_norm", first_token(clip_vision(net, vision))),
    "siglip_vision_model": siglip_vision,
}
"""Towers of a `vision_config`; the first is the default."""
_TOWER = {
    "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "num_attention_heads": 16,
    "num_hidden_layers": 24, "patch_size": 14,
}  # fmt: skip
"""The tower of a config without one: CLIP's ViT-L/14 for images of 336 pixels."""


def llava(net: BlockBuilder, config: Config) -> None:
    """Build LLaVA: a sample is an image, and `--tokens` of text beside it. All parts are trained."""
    config.architecture(["LlavaForConditionalGeneration"])
    if config.values.get("vision_config") is None:
        config.values["vision_config"] = dict(_TOWER)
    tower = inner_type(config, "vision_config", tuple(VISIONS))
    text_type = inner_type(config, "text_config", tuple(TEXTS), "llama")
    vision, skips_first = vision_of(config, tower), _skips_class_token(config)
    layers = _feature_layers(config, vision.stack.layers)
    text = config.part("text_config", text_type)
    features, function = text.size("hidden_size"), config.function("projector_hidden_act")
    bias = config.flag("multimodal_projector_bias")
    config.without_effect("image_seq_length", "image_token_index")
    image_tokens = vision.patches + (tower == "clip_vision_model" and not skips_first)
    text = joined_text(config, text, image_tokens)
    config.check()
    net.sample = "image and text"
    VISIONS[tower](net, vision)
    _stop_gradients(net, max(layers))
    x = Tensor(vision.features * len(layers), image_tokens)
    x = net.activation("projector.act", function, net.linear("projector.in", x, features, bias=bias))
    x = net.linear("projector.out", x, features, bias=bias)
    net.copied("projector.insert", x, x)
    TEXTS[text_type](net, text)


def joined_text(config: Config, text: Config, image_tokens: int) -> Config:
    """Return the config of a language model whose sequence is an image's tokens and those asked for.

    Its own builder checks it.
    """
    config.parts.remove(text)
    positions = text.size("max_position_embeddings")
    tokens = config.requested_tokens or min(DEFAULT_TOKENS, max(1, positions - image_tokens))
    said = "" if config.requested_tokens else "; change this with --tokens"
    config.notes.append(f"a sample is an image of {image_tokens} tokens and {tokens} tokens of text{said}")
    text.requested_tokens = image_tokens + tokens
    text.values.pop("architectures", None)
    text.values["tie_word_embeddings"] = config.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")
    return text


def inner_type(config: Config, key: str, known: tuple[str, ...], default: str = "") -> str:
    """Return the `model_type` of a config within this one; without one, the default or the first known."""
    value = config.values.get(key)
    found = value.get("model_type") if isinstance(value, dict) else None
    if found is None:
        return default or known[0]
    if found not in known:
        allowed = ", ".join(known)
        config.wrong(
            key, f"its model_type is none that can be built here (got {found!r}; known: {allowed})", found, allowed
        )
        return default or known[0]
    return str(found)


def _skips_class_token(config: Config) -> bool:
    return config.choice("vision_feature_select_strategy", ("default", "full")) == "default"


def _feature_layers(config: Config, layers: int) -> list[int]:
    """Return how many blocks lie below each of the hidden states that go on."""
    value = config.anything("vision_feature_layer")
    given = value if isinstance(value, list) else [value]
    found = []
    for each in given:
        if isinstance(each, bool) or not isinstance(each, int) or not -layers - 1 <= each <= layers:
            allowed = f"whole numbers from {-layers - 1} to {layers}"
            config.wrong("vision_feature_layer", f"expected {allowed} (got {each!r})", each, allowed)
        else:
            found.append(each % (layers + 1))
    return found or [layers]


def _stop_gradients(net: BlockBuilder, used: int) -> None:
    """Take the backward products from the blocks of a tower above the last one whose output is used."""
    for index, layer in enumerate(net.layers):
        parts = layer.name.split(".")
        is_above = parts[:2] == ["vision", "layers"] and int(parts[2]) >= used
        if is_above or parts[:2] == ["vision", "head"]:
            net.layers[index] = replace(layer, flop_backward_data=0.0, flop_backward_weights=0.0)
