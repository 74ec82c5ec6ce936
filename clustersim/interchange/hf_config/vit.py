"""The vision transformer (Dosovitskiy et al., 2021) and DINOv2 (Oquab et al., 2023): patches of an image as tokens."""

from __future__ import annotations

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.sample import image_only, image_sides, sides
from clustersim.interchange.hf_config.transformer import Heads, Stack, transformer
from clustersim.model.blocks.feed_forward import gated_feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor


def vit(net: BlockBuilder, config: Config) -> None:
    """Build a ViT: a classifier over a class token, or the pooler of ViTModel."""
    image_only(config, "a ViT")
    net.sample = "image"
    kind = config.architecture(["ViTForImageClassification", "ViTModel"])
    stack, labels = _stack(config, config.size("intermediate_size")), config.labels()
    features = config.size("hidden_size")
    pooled, pooler = config.size("pooler_output_size", features), config.function("pooler_act")
    config.without_effect("encoder_stride")
    x = _patches(net, config, features, extra=0)
    x = net.layer_norm("norm", transformer(net, "layer", x, stack))
    if kind == "ViTModel":
        y = net.fully_connected("pooler", Tensor(features), pooled)
        net.loss("loss", net.activation(f"pooler.{pooler}", pooler, y))
    else:
        net.loss("loss", net.fully_connected("classifier", Tensor(features), labels))


def dinov2(net: BlockBuilder, config: Config) -> None:
    """Build a DINOv2: branches scaled by learned factors, a classifier over class token and mean, or the body."""
    image_only(config, "a DINOv2")
    net.sample = "image"
    kind = config.architecture(["Dinov2Model", "Dinov2ForImageClassification"])
    features, gated = config.size("hidden_size"), config.flag("use_swiglu_ffn")
    width = features * config.size("mlp_ratio")
    stack, labels = _stack(config, width, scaled=True), config.labels()
    masked = config.flag("use_mask_token")
    config.without_effect("layerscale_value", "apply_layernorm", "reshape_hidden_states", "out_features", "out_indices")
    config.without_effect("stage_names", "_out_features", "_out_indices")
    x = _patches(net, config, features, extra=int(masked))
    narrow = (width * 2 // 3 + 7) // 8 * 8

    def gate(net: BlockBuilder, name: str, x: Tensor) -> Tensor:
        return gated_feed_forward(net, name, x, narrow, "silu", bias=True)

    x = net.layer_norm("norm", transformer(net, "layer", x, stack, feed=gate if gated else None))
    if kind == "Dinov2Model":
        net.loss("loss", Tensor(features))
    else:
        mean = net.mean("mean", x)
        net.loss("loss", net.fully_connected("classifier", Tensor(features + mean.channels), labels))


def _stack(config: Config, width: int, scaled: bool = False) -> Stack:
    features, heads = config.size("hidden_size"), config.size("num_attention_heads")
    each = config.split("hidden_size", features, "num_attention_heads", heads)
    bias, drops = config.flag("qkv_bias"), config.drops("hidden_dropout_prob")
    return Stack(
        layers=config.layers("num_hidden_layers"),
        heads=Heads(heads, each, bias=bias, key_bias=bias, drops=config.drops("attention_probs_dropout_prob")),
        width=width,
        function=config.function("hidden_act"),
        drops=drops,
        drops_attention=drops,
        scaled=scaled,
        drops_paths=config.drops("drop_path_rate") if "drop_path_rate" in config.kind.defaults else False,
    )


def _patches(net: BlockBuilder, config: Config, features: int, extra: int) -> Tensor:
    """Add the convolution that makes a token of each patch, the class token and positions; `extra` tokens are learned
    and not used.
    """
    image, patch, own = image_sides(config), sides(config, "patch_size"), sides(config, "image_size")
    channels, drops = config.size("num_channels"), config.drops("hidden_dropout_prob")
    if min(image) < max(patch):
        config.wrong(
            "patch_size", f"expected at most image_size, {min(image)} (got {max(patch)})", max(patch),
            f"1 to {min(image)}",
        )  # fmt: skip
    config.check()
    x = net.conv("patches", net.input(channels, *image), features, kernel=patch, stride=patch)
    places = (own[0] // patch[0]) * (own[1] // patch[1])
    x = net.parameters("positions", Tensor(features, x.positions + 1), num=(places + 2 + extra) * features)
    return net.dropout("positions.drop", x) if drops else x
