"""Falcon (Almazrouei et al., 2023), BLOOM (BigScience, 2022) and OPT (Zhang et al., 2022): decoders of layer norms."""

from __future__ import annotations

from dataclasses import replace

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.decoder import Names, read_frame, read_grouped
from clustersim.model.blocks.attention import grouped_attention
from clustersim.model.blocks.decoder import decoder, head
from clustersim.model.blocks.feed_forward import feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_FALCON = Names(kv_heads="")
_BLOOM = Names(layers="n_layer", heads="n_head", kv_heads="", positions="seq_length")


def falcon(net: BlockBuilder, config: Config) -> None:
    """Build Falcon: one key for all heads or groups, and in most sizes both branches of a block on the same input."""
    frame, bias = read_frame(config, "Falcon", _FALCON), config.flag("bias")
    sizes = replace(read_grouped(config, frame, _FALCON), bias=bias, output_bias=bias, joined=True)
    grouped, shared = config.flag("new_decoder_architecture"), config.flag("multi_query")
    kv_heads = config.size("num_kv_heads", sizes.heads)
    if grouped:
        config.split("num_attention_heads", sizes.heads, "num_kv_heads", kv_heads)
    kv_heads = kv_heads if grouped else 1 if shared else sizes.heads
    sizes = replace(sizes, kv_heads=kv_heads, rotated=0.0 if config.flag("alibi") else 1.0)
    width, function = config.size("ffn_hidden_size", 4 * frame.features), config.function("activation")
    parallel, norms = config.flag("parallel_attn"), config.size("num_ln_in_parallel_attn", 2 if grouped else 1)
    net.keeps = {"drop_embedding"} | (set() if config.drops("hidden_dropout") else {"drop"})
    config.without_effect("apply_residual_connection_post_layernorm")
    config.check()

    def block(name: str, _: int, x: Tensor) -> Tensor:
        normed = net.layer_norm(f"{name}.norm1", x)
        y = net.dropout(f"{name}.attention.drop", grouped_attention(net, f"{name}.attention", normed, sizes))
        after = net.add(f"{name}.attention.add", x, y)
        if not parallel:
            normed = net.layer_norm(f"{name}.norm2", after)
        elif norms == 2:
            normed = net.layer_norm(f"{name}.norm2", x)
        y = feed_forward(net, f"{name}.feed_forward", normed, width, function, bias)
        return net.add(f"{name}.feed_forward.add", after, net.dropout(f"{name}.feed_forward.drop", y))

    head(net, frame, net.layer_norm("norm", decoder(net, frame, block)))


def bloom(net: BlockBuilder, config: Config) -> None:
    """Build BLOOM: shifts of scores by distance (ALiBi) instead of positions, and a norm behind the embedding."""
    frame = read_frame(config, "Bloom", _BLOOM)
    sizes = replace(read_grouped(config, frame, _BLOOM), bias=True, output_bias=True, joined=True, rotated=0.0)
    net.keeps = {"drop_embedding"} | (set() if config.drops("hidden_dropout") else {"drop"})
    config.without_effect(
        "apply_residual_connection_post_layernorm", "attention_softmax_in_fp32", "bias_dropout_fusion",
        "masked_softmax_fusion", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact",
        "unk_token_id",
    )  # fmt: skip
    config.check()
    config.notes.append("shifts of scores by distance (ALiBi) are taken as a part of the fused attention kernel")

    def block(name: str, _: int, x: Tensor) -> Tensor:
        y = grouped_attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), sizes)
        x = net.add(f"{name}.attention.add", x, net.dropout(f"{name}.attention.drop", y))
        y = net.layer_norm(f"{name}.norm2", x)
        y = feed_forward(net, f"{name}.feed_forward", y, 4 * x.channels, "gelu")
        return net.add(f"{name}.feed_forward.add", x, net.dropout(f"{name}.feed_forward.drop", y))

    x = net.embedding("embedding", frame.tokens, frame.features, rows=[frame.vocabulary])
    x = net.layer_norm("embedding.norm", x)
    for number in range(frame.layers):
        x = block(f"h.{number}", number, x)
    head(net, frame, net.layer_norm("norm", x))


def opt(net: BlockBuilder, config: Config) -> None:
    """Build OPT: ReLU, learned positions, of which two are never used; the 350M model norms behind each branch."""
    frame, bias = read_frame(config, "OPT", Names(kv_heads=""), learned=True, unused=2), config.flag("enable_bias")
    sizes = read_grouped(config, frame, Names(kv_heads=""))
    sizes = replace(sizes, bias=bias, output_bias=bias, rotated=0.0)
    width, function = config.size("ffn_dim"), config.function("activation_function")
    words, before = config.size("word_embed_proj_dim", frame.features), config.flag("do_layer_norm_before")
    last, scaled = before and not config.flag("_remove_final_layer_norm"), config.flag("layer_norm_elementwise_affine")
    net.keeps = {"drop_embedding"} | (set() if config.drops("dropout") else {"drop"})
    if config.drops("layerdrop"):
        config.notes.append("layerdrop: all layers are computed")
    config.check()

    def norm(name: str, x: Tensor) -> Tensor:
        return net.layer_norm(name, x) if scaled else net.plain_norm(name, x)

    def block(name: str, _: int, x: Tensor) -> Tensor:
        y = norm(f"{name}.norm1", x) if before else x
        y = net.dropout(f"{name}.attention.drop", grouped_attention(net, f"{name}.attention", y, sizes))
        x = net.add(f"{name}.attention.add", x, y)
        x = x if before else norm(f"{name}.norm1", x)
        y = norm(f"{name}.norm2", x) if before else x
        y = net.dropout(
            f"{name}.feed_forward.drop", feed_forward(net, f"{name}.feed_forward", y, width, function, bias)
        )
        x = net.add(f"{name}.feed_forward.add", x, y)
        return x if before else norm(f"{name}.norm2", x)

    x = net.embedding("embedding", frame.tokens, words, rows=[frame.vocabulary])
    if words != frame.features:
        x = net.linear("project_in", x, frame.features, bias=False)
    x = net.parameters("positions", x, frame.rows * frame.features)
    for number in range(frame.layers):
        x = block(f"layers.{number}", number, x)
    x = norm("norm", x) if last else x
    if words != frame.features:
        x = net.linear("project_out", x, words, bias=False)
    head(net, frame, x)
