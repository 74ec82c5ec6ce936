"""What a sample is: its tokens, and the sides of its image."""

from __future__ import annotations

from clustersim.errors import InputError
from clustersim.interchange.hf_config.config import Config


def sides(config: Config, key: str) -> tuple[int, int]:
    """Return height and width from a key that has one number for both, or a list of two."""
    value = config.values.get(key)
    if not isinstance(value, list):
        side = config.size(key)
        return side, side
    found = config.numbers(key)
    if found is None or len(found) != 2 or min(found) < 1:
        config.wrong(key, f"expected a whole number or a list of two of at least 1 (got {value})", str(value))
        return 1, 1
    return found[0], found[1]


def image_sides(config: Config, key: str = "image_size", interpolated: bool = True) -> tuple[int, int]:
    """Return height and width of the image of a sample: those asked for, or the config's.

    Learned positions of a config's image are `interpolated` for another size.
    """
    own, asked = sides(config, key), config.asked_image_size()
    if asked is None or own == (asked, asked):
        return own
    if interpolated:
        config.notes.append(f"positions of images of {own[0]} x {own[1]} are interpolated for {asked} x {asked}")
    return asked, asked


def image_only(config: Config, what: str) -> None:
    """Refuse `--tokens` for a model whose samples have none."""
    if config.requested_tokens is not None:
        raise InputError(f"a sample of {what} is an image; remove --tokens", got=str(config.requested_tokens))
