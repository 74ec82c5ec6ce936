"""Decoders with experts in most layers: Mixtral, Qwen2-MoE and Qwen3-MoE, gpt-oss, Llama 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.decoder import (
    CHUNKED,
    FULL,
    SLIDING,
    check_active,
    read_frame,
    read_grouped,
    read_masks,
    sparse_layers,
)
from clustersim.model.blocks.attention import Mask, grouped_attention
from clustersim.model.blocks.decoder import FeedForward, decoder, head, pre_norm_decoder
from clustersim.model.blocks.feed_forward import Experts, experts_layer, gated_feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_WITHOUT_EFFECT = ("norm_topk_prob", "output_router_logits", "router_aux_loss_coef", "router_jitter_noise")
"""How scores of experts are scaled, and losses of the router: element-wise on a number for each expert."""


def mixtral(net: BlockBuilder, config: Config) -> None:
    """Build Mixtral (Jiang et al., 2024): Mistral with experts, of which each token uses some."""
    frame = read_frame(config, "Mixtral")
    attention, window = read_grouped(config, frame), config.optional_size("sliding_window")
    sizes = _experts(config, "num_local_experts", "intermediate_size")
    config.check()
    masks = [Mask(window=window)] * frame.layers
    pre_norm_decoder(net, frame, attention, masks, _feed(net, sizes, [True] * frame.layers))


def qwen2_moe(net: BlockBuilder, config: Config) -> None:
    """Build Qwen2-MoE (2024): Qwen2 with experts, one of which every token uses, weighed by a score."""
    frame, shared = read_frame(config, "Qwen2Moe"), config.size("shared_expert_intermediate_size")
    attention = replace(read_grouped(config, frame), bias=config.flag("qkv_bias"))
    window, last = config.optional_size("sliding_window", least=0), config.size("max_window_layers", least=0)
    used = config.flag("use_sliding_window") and window
    masks = read_masks(
        config,
        frame.layers,
        window or None,
        lambda number: SLIDING if used and number % 2 == 0 and number < last else FULL,
    )
    sizes = replace(_experts(config, "num_experts", "moe_intermediate_size"), shared=shared, shared_gate=True)
    feed = _feed(net, sizes, sparse_layers(config, frame.layers), config.size("intermediate_size"))
    config.check()
    pre_norm_decoder(net, frame, attention, masks, feed)


def qwen3_moe(net: BlockBuilder, config: Config) -> None:
    """Build Qwen3-MoE (Yang et al., 2025): Qwen3 with many small experts."""
    frame, bias = read_frame(config, "Qwen3Moe"), config.flag("attention_bias")
    attention = replace(read_grouped(config, frame), bias=bias, output_bias=bias, norm="head")
    window = config.optional_size("sliding_window", least=0) if config.flag("use_sliding_window") else None
    config.without_effect("sliding_window", "max_window_layers")
    sizes = _experts(config, "num_experts", "moe_intermediate_size")
    feed = _feed(net, sizes, sparse_layers(config, frame.layers), config.size("intermediate_size"))
    config.check()
    pre_norm_decoder(net, frame, attention, [Mask(window=window or None)] * frame.layers, feed)


def gpt_oss(net: BlockBuilder, config: Config) -> None:
    """Build gpt-oss (OpenAI, 2025): every second layer has a window, heads have sinks, experts have biases."""
    frame, bias = read_frame(config, "GptOss"), config.flag("attention_bias")
    attention = replace(read_grouped(config, frame), bias=bias, output_bias=bias, sinks=True)
    window = config.optional_size("sliding_window")
    masks = read_masks(config, frame.layers, window, lambda number: FULL if number % 2 else SLIDING)
    sizes = replace(_experts(config, "num_local_experts", "intermediate_size"), bias=True)
    config.without_effect("swiglu_alpha", "swiglu_limit", "experts_per_token", "initial_context_length")
    config.check()
    config.notes.append("attention with sinks is taken as one fused kernel, as FlashAttention-3 has it")
    pre_norm_decoder(net, frame, attention, masks, _feed(net, sizes, [True] * frame.layers))


def llama4_text(net: BlockBuilder, config: Config) -> None:
    """Build the text model of Llama 4 (2025): chunks, layers without positions, experts beside a shared one."""
    frame, bias = read_frame(config, "Llama4", text="Text"), config.flag("attention_bias")
    step, rotated = config.size("interleave_moe_layer_step"), _rotated(config, frame.layers)
    norm = config.flag("use_qk_norm")
    attention = replace(read_grouped(config, frame), bias=bias, output_bias=bias, scaled=False)
    chunk = config.optional_size("attention_chunk_size")
    masks = read_masks(config, frame.layers, None, lambda number: CHUNKED if rotated[number] and chunk else FULL, chunk)
    sizes = _experts(config, "num_local_experts", "intermediate_size")
    sizes, dense = replace(sizes, shared=sizes.width), config.size("intermediate_size_mlp")
    chosen = config.numbers("moe_layers")
    sparse = set(range(step - 1, frame.layers, step) if chosen is None else chosen)
    config.without_effect("attn_temperature_tuning", "floor_scale", "attn_scale")
    config.check()

    def block(name: str, number: int, x: Tensor) -> Tensor:
        own = replace(attention, rotated=float(rotated[number]), norm="head" if norm and rotated[number] else "")
        y = grouped_attention(net, f"{name}.attention", net.rms_norm(f"{name}.norm1", x), own, masks[number])
        x = net.add(f"{name}.attention.add", x, y)
        y = net.rms_norm(f"{name}.norm2", x)
        if number in sparse:
            y = experts_layer(net, f"{name}.experts", y, sizes)
        else:
            y = gated_feed_forward(net, f"{name}.feed_forward", y, dense, sizes.function)
        return net.add(f"{name}.feed_forward.add", x, y)

    head(net, frame, net.rms_norm("norm", decoder(net, frame, block)))


def _rotated(config: Config, layers: int) -> list[bool]:
    """Return which layers of a Llama 4 have rotary positions: by their list, or all but every fourth, for example."""
    interval, listed = config.size("no_rope_layer_interval"), config.numbers("no_rope_layers")
    if listed and len(listed) != layers:
        allowed = f"a list of {layers} numbers, 1 for a layer with positions"
        config.wrong("no_rope_layers", f"expected {allowed} (got {len(listed)})", len(listed), allowed)
        listed = None
    return [bool(each) for each in listed] if listed else [bool((number + 1) % interval) for number in range(layers)]


def _experts(config: Config, num_key: str, width_key: str) -> Experts:
    """Read the number of experts, those of a token, and their width."""
    num, active = config.size(num_key), config.size("num_experts_per_tok")
    check_active(config, "num_experts_per_tok", active, num)
    config.without_effect(*_WITHOUT_EFFECT)
    return Experts(num, active, config.size(width_key), config.function("hidden_act"))


def _feed(net: BlockBuilder, sizes: Experts, sparse: Sequence[bool], dense: int = 0) -> FeedForward:
    """Return what adds experts to the `sparse` layers, and a layer of `dense` features in between to the others."""

    def add(name: str, number: int, x: Tensor) -> Tensor:
        if sparse[number]:
            return experts_layer(net, name.replace("feed_forward", "experts"), x, sizes)
        return gated_feed_forward(net, name, x, dense, sizes.function)

    return add
