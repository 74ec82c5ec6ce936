"""What configs of decoders share: the keys of their sizes, of attention and masks, and of layers with experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clustersim.interchange.hf_config.config import Config
from clustersim.model.blocks.attention import Grouped, Mask
from clustersim.model.blocks.decoder import Frame

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"

_POSITIONS = 2048
"""Positions of a config whose class has no key for them (BLOOM's were trained on so many tokens)."""


@dataclass(frozen=True)
class Names:
    """Keys of the sizes, which differ between families."""

    features: str = "hidden_size"
    layers: str = "num_hidden_layers"
    heads: str = "num_attention_heads"
    kv_heads: str = "num_key_value_heads"
    positions: str = "max_position_embeddings"


GPT = Names("n_embd", "n_layer", "n_head", "", "n_positions")


def read_frame(
    config: Config, prefix: str, names: Names = Names(), learned: bool = False, unused: int = 0, text: str = ""
) -> Frame:
    """Read the sizes around the blocks; the classes of a family begin with `prefix`, and `text` is in some names.

    Positions are `learned` or computed; `unused` ones are never a token's.
    """
    causal, plain, scored = f"{prefix}ForCausalLM", f"{prefix}{text}Model", f"{prefix}{text}ForSequenceClassification"
    kind = config.architecture([causal, plain, scored])
    positions = config.size(names.positions, _POSITIONS if names.positions not in config.kind.defaults else None)
    return Frame(
        features=config.size(names.features),
        layers=config.layers(names.layers),
        vocabulary=config.size("vocab_size"),
        tokens=config.tokens(positions, learned),
        tied=config.flag("tie_word_embeddings"),
        head={causal: "words", plain: "", scored: "labels"}[kind],
        labels=config.labels(),
        rows=positions + unused if learned else 0,
    )


def read_grouped(config: Config, frame: Frame, names: Names = Names()) -> Grouped:
    """Read heads, heads of keys and values, and the width of a head; its biases and other settings are the family's."""
    heads = config.size(names.heads)
    kv_heads = min(config.size(names.kv_heads, heads), heads) if names.kv_heads else heads
    config.split(names.heads, heads, names.kv_heads, kv_heads)
    width = frame.features // heads
    if names.kv_heads:  # these classes take a width also where it is no field of theirs
        width = config.size("head_dim", config.kind.defaults.get("head_dim") or max(1, width))
    if config.values.get("head_dim") is None and config.kind.defaults.get("head_dim") is None:
        config.split(names.features, frame.features, names.heads, heads)
    return Grouped(heads, kv_heads, max(1, width))


def rotated_share(config: Config, key: str = "partial_rotary_factor", default: float = 1.0) -> float:
    """Return the share of a head's features that are rotated, from `rope_parameters` or an older key."""
    found = config.mapping("rope_parameters").get("partial_rotary_factor", config.values.get(key))
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
        config.wrong(key, f"expected a number from 0 to 1 (got {found!r})", found, "0 to 1")
        return default
    return float(found)


def read_masks(
    config: Config, layers: int, window: int | None, pattern: Callable[[int], str], chunk: int | None = None
) -> list[Mask]:
    """Return the mask of each layer: by `layer_types`, or else by the class's pattern of a layer's number."""
    kinds = config.kinds("layer_types", layers, (FULL, SLIDING, CHUNKED))
    masks = {FULL: Mask(), SLIDING: Mask(window=window), CHUNKED: Mask(chunk=chunk)}
    return [masks[kind] for kind in kinds or map(pattern, range(layers))]


def check_active(config: Config, key: str, active: int, num: int) -> None:
    """Store a mistake if a token uses more experts than there are."""
    if active > num:
        config.wrong(key, f"there are {num} experts (got {active})", active, f"1 to {num}")


def sparse_layers(config: Config, layers: int) -> Sequence[bool]:
    """Return which layers have experts, of classes with `decoder_sparse_step` and `mlp_only_layers`."""
    step, dense = config.size("decoder_sparse_step"), set(config.numbers("mlp_only_layers") or ())
    return [number not in dense and (number + 1) % step == 0 for number in range(layers)]
