"""Inputs of a model of transformers for one sample: words, words of two sides, audio, images, images in text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

IMAGE_TOKEN = 99
"""The word of an image's place in the small configs that images in texts are tried with."""


def words(config: Any, tokens: int, device: str) -> dict[str, Any]:
    """Return a sequence of words."""
    import torch

    return {"input_ids": torch.zeros((1, tokens), dtype=torch.long, device=device), "use_cache": False}


def plain_words(config: Any, tokens: int, device: str) -> dict[str, Any]:
    """Return a sequence of words for a model without a cache."""
    return {"input_ids": words(config, tokens, device)["input_ids"]}


def both_sides(config: Any, tokens: int, device: str) -> dict[str, Any]:
    """Return words for an encoder and as many for a decoder."""
    first = words(config, tokens, device)
    return first | {"input_ids": first["input_ids"] + 3, "decoder_input_ids": first["input_ids"]}


def audio(config: Any, tokens: int, device: str) -> dict[str, Any]:
    """Return a spectrogram and words of a decoder."""
    import torch

    features = torch.zeros(1, config.num_mel_bins, 2 * config.max_source_positions, device=device)
    return {"input_features": features, "decoder_input_ids": words(config, tokens, device)["input_ids"]}


def image(config: Any, tokens: int, device: str) -> dict[str, Any]:
    """Return an image as large as the config's."""
    import torch

    return {"pixel_values": torch.zeros(1, config.num_channels, config.image_size, config.image_size, device=device)}


def image_of(side: int) -> Callable[[Any, int, str], dict[str, Any]]:
    """Return what makes an image of this side, for a class whose configs have none."""

    def make(config: Any, tokens: int, device: str) -> dict[str, Any]:
        import torch

        return {"pixel_values": torch.zeros(1, config.num_channels, side, side, device=device)}

    return make


def pair(config: Any, tokens: int, device: str) -> dict[str, Any]:
    """Return an image and a text."""
    return image(config.vision_config, tokens, device) | plain_words(config, tokens, device)


def image_in_text(config: Any, tokens: int, device: str) -> dict[str, Any]:
    """Return an image, and a text that begins with its tokens."""
    import torch

    vision = config.vision_config
    places = (vision.image_size // vision.patch_size) ** 2
    places += config.vision_feature_select_strategy == "full" and vision.model_type == "clip_vision_model"
    ids = torch.zeros((1, places + tokens), dtype=torch.long, device=device)
    ids[:, :places] = IMAGE_TOKEN
    return image(vision, tokens, device) | {"input_ids": ids, "use_cache": False}


def patches_in_text(side: int) -> Callable[[Any, int, str], dict[str, Any]]:
    """Return what makes the patches of an image of this side, and a text that begins with its tokens."""

    def make(config: Any, tokens: int, device: str) -> dict[str, Any]:
        import torch

        vision = config.vision_config
        grid = side // vision.patch_size
        places = (grid // vision.spatial_merge_size) ** 2
        ids = torch.zeros((1, places + tokens), dtype=torch.long, device=device)
        ids[:, :places] = IMAGE_TOKEN
        numbers = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
        return {
            "input_ids": ids,
            "pixel_values": torch.zeros(grid**2, numbers, device=device),
            "image_grid_thw": torch.tensor([[1, grid, grid]]),
            "mm_token_type_ids": (ids == IMAGE_TOKEN).int(),
            "use_cache": False,
        }

    return make
