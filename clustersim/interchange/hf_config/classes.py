"""The config classes of transformers: their keys, defaults and other names of keys (`classes.json`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

PARTS: tuple[str, ...] = (
    "clip_text_model", "clip_vision_model", "qwen2_5_vl_text", "qwen2_5_vl_vision", "siglip_text_model",
    "siglip_vision_model",
)  # fmt: skip
"""Classes of `classes.json` that are no family, but a part of one's config."""


OLDER: Mapping[str, Mapping[str, str]] = {
    "bloom": {"n_embed": "hidden_size"},
    "falcon": {"n_embed": "hidden_size"},
}
"""Names of keys in older files, which the classes still read."""


class ConfigClass(NamedTuple):
    """A class: its name, its keys with their defaults, other names of some of these, and whether attention is fused by
    default (`sdpa`).
    """

    name: str
    defaults: Mapping[str, Any]
    aliases: Mapping[str, str]
    sdpa: bool = False


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(files(__package__).joinpath("classes.json").read_text(encoding="utf-8"))
    return document


@lru_cache(maxsize=64)
def config_class(model_type: str) -> ConfigClass:
    """Return the class of a `model_type`, with the keys of all configs.

    >>> config_class("mistral").name, config_class("mistral").defaults["sliding_window"]
    ('MistralConfig', 4096)
    """
    document = _document()
    found = document["classes"][model_type]
    aliases = found["aliases"] | OLDER.get(model_type, {})
    return ConfigClass(found["class"], document["base"] | found["defaults"], aliases, found["sdpa"])
