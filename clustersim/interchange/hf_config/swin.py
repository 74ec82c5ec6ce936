"""Swin (Liu et al., 2021): attention within windows of an image, and stages that merge neighbouring patches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.sample import image_only, image_sides, sides
from clustersim.model.blocks.attention import attention_kernels
from clustersim.model.blocks.feed_forward import feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_MOST_STAGES = 8
_MOST_BLOCKS = 1000


@dataclass(frozen=True)
class _Sizes:
    features: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    window: int
    widening: float
    function: str
    bias: bool
    drops: bool
    drops_weights: bool
    drops_paths: bool


def swin(net: BlockBuilder, config: Config) -> None:
    """Build a Swin with its classifier, or the body of SwinModel."""
    image_only(config, "a Swin")
    net.sample = "image"
    kind = config.architecture(["SwinForImageClassification", "SwinModel"])
    sizes, labels = _sizes(config), config.labels()
    image, patch, channels = (
        image_sides(config, interpolated=False),
        sides(config, "patch_size"),
        config.size("num_channels"),
    )
    own, absolute = sides(config, "image_size"), config.flag("use_absolute_embeddings")
    config.without_effect(
        "_out_features",
        "_out_indices",
        "encoder_stride",
        "hidden_size",
        "num_layers",
        "out_features",
        "out_indices",
        "path_norm",
    )
    grid = tuple(-(-side // step) for side, step in zip(image, patch, strict=True))
    _check_windows(config, (grid[0], grid[1]), sizes)
    config.check()
    padded = net.input(channels, grid[0] * patch[0], grid[1] * patch[1])
    x = net.layer_norm("patches.norm", net.conv("patches", padded, sizes.features, kernel=patch, stride=patch))
    if absolute:
        x = net.parameters("positions", x, (own[0] // patch[0]) * (own[1] // patch[1]) * sizes.features)
    if sizes.drops:
        x = net.dropout("patches.drop", x)
    number = 0
    for stage, (depth, heads) in enumerate(zip(sizes.depths, sizes.heads, strict=True)):
        for block in range(depth):
            name = f"stages.{stage}.blocks.{block}"
            x = _block(net, name, x, sizes, heads, shifted=bool(block % 2), drops_path=sizes.drops_paths and number > 0)
            number += 1
        if stage + 1 < len(sizes.depths):
            x = _merge(net, f"stages.{stage}.merge", x)
    x = net.mean("pool", net.layer_norm("norm", x))
    if kind == "SwinForImageClassification":
        x = net.fully_connected("classifier", x, labels)
    net.loss("loss", x)


def _sizes(config: Config) -> _Sizes:
    depths, heads = (config.numbers(key) or [1] for key in ("depths", "num_heads"))
    if not len(heads) == len(depths) <= _MOST_STAGES or min(depths) < 1 or min(heads) < 1 or max(depths) > _MOST_BLOCKS:
        allowed = f"as many as num_heads, at most {_MOST_STAGES}, each from 1 to {_MOST_BLOCKS}"
        config.wrong("depths", f"expected {allowed} (got {depths} and {heads})", depths, allowed)
        depths = heads = [1]
    features = config.size("embed_dim")
    for stage, each in enumerate(heads):
        if (features << stage) % each:
            config.wrong("num_heads", f"stage {stage} has {features << stage} features and {each} heads", each)
    return _Sizes(
        features=features,
        depths=tuple(depths),
        heads=tuple(heads),
        window=config.size("window_size"),
        widening=config.number("mlp_ratio"),
        function=config.function("hidden_act"),
        bias=config.flag("qkv_bias"),
        drops=config.drops("hidden_dropout_prob"),
        drops_weights=config.drops("attention_probs_dropout_prob"),
        drops_paths=config.drops("drop_path_rate"),
    )


def _check_windows(config: Config, grid: tuple[int, int], sizes: _Sizes) -> None:
    """Refuse a stage that is smaller than a window, whose table of positions would not fit."""
    least = min(grid)
    for _ in sizes.depths[1:]:
        least = -(-least // 2)
    if least < sizes.window:
        config.wrong(
            "window_size", f"the last stage has {least} patches a side (got windows of {sizes.window})", sizes.window,
            f"at most {least}",
        )  # fmt: skip


def _block(
    net: BlockBuilder, name: str, x: Tensor, sizes: _Sizes, heads: int, shifted: bool, drops_path: bool
) -> Tensor:
    """Add attention within windows, of which every second block's are shifted by half, and feed-forward layers."""
    shifted = shifted and min(x.height, x.width) > sizes.window
    y = _windows(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), sizes, heads, shifted)
    x = net.add(f"{name}.attention.add", x, _dropped(net, f"{name}.attention", y, sizes.drops, drops_path))
    y = net.layer_norm(f"{name}.norm2", x)
    y = feed_forward(net, f"{name}.feed_forward", y, max(1, int(sizes.widening * x.channels)), sizes.function)
    return net.add(f"{name}.feed_forward.add", x, _dropped(net, f"{name}.feed_forward", y, sizes.drops, False))


def _dropped(net: BlockBuilder, name: str, x: Tensor, drops: bool, drops_path: bool) -> Tensor:
    """Drop elements, or whole branches of samples, which scales them."""
    if drops:
        x = net.dropout(f"{name}.drop", x)
    return net.drop_path(f"{name}.drop_path", x) if drops_path else x


def _windows(net: BlockBuilder, name: str, x: Tensor, sizes: _Sizes, heads: int, shifted: bool) -> Tensor:
    """Add attention within windows: copies into windows and back, and projections of all their places."""
    side, channels = sizes.window, x.channels
    rows, columns = -(-x.height // side), -(-x.width // side)
    inside = Tensor(channels, rows * side, columns * side)
    y = net.copied(f"{name}.partition", x, inside, times=1 + shifted)
    qkv = net.linear(f"{name}.qkv", y, channels, bias=sizes.bias, count=3)
    each = replace(qkv, channels=channels * rows * columns, height=side * side, width=1)
    table = (2 * side - 1) ** 2 * heads
    attention_kernels(net, name, each, each, heads * rows * columns, drops=sizes.drops_weights, table=table)
    y = net.linear(f"{name}.output", inside, channels)
    return net.copied(f"{name}.join", y, x, times=1 + shifted)


def _merge(net: BlockBuilder, name: str, x: Tensor) -> Tensor:
    """Make one patch of two by two, with twice the features."""
    y = net.copied(f"{name}.gather", x, Tensor(4 * x.channels, -(-x.height // 2), -(-x.width // 2)))
    return net.linear(name, net.layer_norm(f"{name}.norm", y), 2 * x.channels, bias=False)
