"""Llama (Touvron et al., 2023) and related models: RMS norms, rotary positions, grouped queries, gated layers."""

from __future__ import annotations

from dataclasses import replace

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.decoder import FULL, SLIDING, read_frame, read_grouped, read_masks, rotated_share
from clustersim.model.blocks.attention import Mask, grouped_attention
from clustersim.model.blocks.decoder import FeedForward, decoder, head, pre_norm_decoder
from clustersim.model.blocks.feed_forward import feed_forward, gated_feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor


def llama(net: BlockBuilder, config: Config) -> None:
    """Build a Llama."""
    frame = read_frame(config, "Llama")
    bias = config.flag("attention_bias")
    attention = replace(read_grouped(config, frame), bias=bias, output_bias=bias)
    feed = _gated(net, config, config.flag("mlp_bias"))
    config.check()
    pre_norm_decoder(net, frame, attention, [Mask()] * frame.layers, feed)


def mistral(net: BlockBuilder, config: Config) -> None:
    """Build Mistral (Jiang et al., 2023): tokens see those in a window before them."""
    frame = read_frame(config, "Mistral")
    attention, window = read_grouped(config, frame), config.optional_size("sliding_window")
    feed = _gated(net, config)
    config.check()
    pre_norm_decoder(net, frame, attention, [Mask(window=window)] * frame.layers, feed)


def qwen2(net: BlockBuilder, config: Config) -> None:
    """Build Qwen2 (2024): Llama with biases on query, key and value; the last layers may have a window."""
    frame = read_frame(config, "Qwen2")
    attention, masks = replace(read_grouped(config, frame), bias=True), late_windows(config, frame.layers)
    feed = _gated(net, config)
    config.check()
    pre_norm_decoder(net, frame, attention, masks, feed)


def qwen3(net: BlockBuilder, config: Config) -> None:
    """Build Qwen3 (Yang et al., 2025): queries and keys are normalised head by head."""
    frame = read_frame(config, "Qwen3")
    bias = config.flag("attention_bias")
    attention = replace(read_grouped(config, frame), bias=bias, output_bias=bias, norm="head")
    masks, feed = late_windows(config, frame.layers), _gated(net, config)
    config.check()
    pre_norm_decoder(net, frame, attention, masks, feed)


def phi3(net: BlockBuilder, config: Config) -> None:
    """Build Phi-3 (Abdin et al., 2024) and Phi-4: one product for query, key and value, one for gate and features."""
    frame = read_frame(config, "Phi3")
    window, share = config.optional_size("sliding_window"), rotated_share(config)
    attention = replace(read_grouped(config, frame), joined=True, rotated=share)
    width, function = config.size("intermediate_size"), config.function("hidden_act")
    net.keeps = {name for name, key in (("drop", "embd_pdrop"), ("drop1", "resid_pdrop")) if not config.drops(key)}
    net.keeps |= {"drop2"} & {each.replace("1", "2") for each in net.keeps}
    if config.values.get("attention_bias") is False:  # a key of Phi-4's file that the class does not have
        config.without_effect("attention_bias")
    config.check()

    def feed(name: str, _: int, x: Tensor) -> Tensor:
        y = gated_feed_forward(net, name, x, width, function, joined=True)
        return net.dropout(f"{name}.drop2", y)

    pre_norm_decoder(net, frame, attention, [Mask(window=window)] * frame.layers, feed)


def olmo2(net: BlockBuilder, config: Config) -> None:
    """Build OLMo 2 (Team OLMo, 2025): norms behind attention and feed-forward, and over all queries and all keys."""
    frame = read_frame(config, "Olmo2")
    bias = config.flag("attention_bias")
    attention = replace(read_grouped(config, frame), bias=bias, output_bias=bias, norm="all")
    width, function = config.size("intermediate_size"), config.function("hidden_act")
    config.check()

    def block(name: str, _: int, x: Tensor) -> Tensor:
        y = net.rms_norm(f"{name}.norm1", grouped_attention(net, f"{name}.attention", x, attention))
        x = net.add(f"{name}.attention.add", x, y)
        y = gated_feed_forward(net, f"{name}.feed_forward", x, width, function)
        return net.add(f"{name}.feed_forward.add", x, net.rms_norm(f"{name}.norm2", y))

    head(net, frame, net.rms_norm("norm", decoder(net, frame, block)))


def starcoder2(net: BlockBuilder, config: Config) -> None:
    """Build StarCoder2 (Lozhkov et al., 2024): layer norms, biases, two linear layers, and a window."""
    frame = read_frame(config, "Starcoder2")
    window, bias = config.optional_size("sliding_window"), config.flag("use_bias")
    attention = replace(read_grouped(config, frame), bias=bias, output_bias=bias)
    width, function = config.size("intermediate_size"), config.function("hidden_act")
    net.keeps = set() if config.drops("residual_dropout") else {"drop1", "drop2"}
    net.keeps |= set() if config.drops("embedding_dropout") else {"drop"}
    config.check()

    def block(name: str, _: int, x: Tensor) -> Tensor:
        y = net.layer_norm(f"{name}.norm1", x)
        y = grouped_attention(net, f"{name}.attention", y, attention, Mask(window=window))
        x = net.add(f"{name}.attention.add", x, net.dropout(f"{name}.attention.drop1", y))
        y = feed_forward(net, f"{name}.feed_forward", net.layer_norm(f"{name}.norm2", x), width, function, bias)
        return net.add(f"{name}.feed_forward.add", x, net.dropout(f"{name}.feed_forward.drop2", y))

    head(net, frame, net.layer_norm("norm", decoder(net, frame, block)))


def late_windows(config: Config, layers: int) -> list[Mask]:
    """Return the masks of Qwen's classes: layers from `max_window_layers` on have a window, if they are to use it."""
    window, first = config.optional_size("sliding_window", least=0), config.size("max_window_layers", least=0)
    used = config.flag("use_sliding_window") and window
    return read_masks(config, layers, window or None, lambda number: SLIDING if used and number >= first else FULL)


def _gated(net: BlockBuilder, config: Config, bias: bool = False) -> FeedForward:
    """Read the sizes of a gated feed-forward layer, and return what adds it."""
    width, function = config.size("intermediate_size"), config.function("hidden_act")
    return lambda name, _, x: gated_feed_forward(net, name, x, width, function, bias)
