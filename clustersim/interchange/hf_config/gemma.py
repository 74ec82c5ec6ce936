"""Gemma (Gemma Team, 2024), Gemma 2 and 3: wide heads, gated GELUs, and in the later ones four norms in a block."""

from __future__ import annotations

from dataclasses import replace

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.decoder import FULL, SLIDING, read_frame, read_masks
from clustersim.model.blocks.attention import Grouped, Mask
from clustersim.model.blocks.decoder import Frame, four_norm_decoder, pre_norm_decoder
from clustersim.model.blocks.feed_forward import gated_feed_forward
from clustersim.model.blocks.net import BlockBuilder

_WITHOUT_EFFECT = ("query_pre_attn_scalar",)  # another scale of the scores


def gemma(net: BlockBuilder, config: Config) -> None:
    """Build Gemma: a Llama with heads of 256 features, gated GELUs, and a head tied to the embedding."""
    frame, attention = read_frame(config, "Gemma"), _attention(config)
    width = config.size("intermediate_size")
    function = config.function("hidden_activation", config.function("hidden_act"))
    config.check()
    pre_norm_decoder(
        net,
        frame,
        attention,
        [Mask()] * frame.layers,
        lambda name, _, x: gated_feed_forward(net, name, x, width, function),
    )


def gemma2(net: BlockBuilder, config: Config) -> None:
    """Build Gemma 2 (Gemma Team, 2024): every second layer has a window; a tanh limits scores."""
    frame, attention = read_frame(config, "Gemma2"), _attention(config)
    window = config.optional_size("sliding_window")
    masks = read_masks(config, frame.layers, window, lambda number: FULL if number % 2 else SLIDING)
    _four_norms(net, config, frame, attention, masks)


def gemma3_text(net: BlockBuilder, config: Config) -> None:
    """Build the text model of Gemma 3 (Gemma Team, 2025): five of six layers have a window; norms of each head."""
    frame, attention = read_frame(config, "Gemma3", text="Text"), replace(_attention(config), norm="head")
    window, every = config.optional_size("sliding_window"), config.size("sliding_window_pattern", 6)
    masks = read_masks(config, frame.layers, window, lambda number: SLIDING if (number + 1) % every else FULL)
    _four_norms(net, config, frame, attention, masks)


def _attention(config: Config) -> Grouped:
    """Read the attention; these classes have a default width of a head, also where it is null."""
    bias = config.flag("attention_bias")
    if config.flag("use_bidirectional_attention"):
        config.wrong(
            "use_bidirectional_attention", "attention to later tokens is not built (got true)", "true", "false"
        )
    config.without_effect(*_WITHOUT_EFFECT)
    heads, kv_heads = config.size("num_attention_heads"), config.size("num_key_value_heads")
    config.split("num_attention_heads", heads, "num_key_value_heads", kv_heads)
    return Grouped(heads, kv_heads, config.size("head_dim"), bias=bias, output_bias=bias)


def _four_norms(net: BlockBuilder, config: Config, frame: Frame, attention: Grouped, masks: list[Mask]) -> None:
    """Add a decoder with norms before and behind attention and feed-forward."""
    width, function = config.size("intermediate_size"), config.function("hidden_activation")
    capped = config.number("attn_logit_softcapping") > 0
    cap = config.number("final_logit_softcapping") > 0
    config.check()
    if capped:
        config.notes.append(
            "attn_logit_softcapping: the limit of the scores is taken as a part of the fused kernel; "
            "PyTorch's own attention has no such kernel, and unfused attention takes longer"
        )

    four_norm_decoder(net, frame, attention, masks, width, function, cap)
