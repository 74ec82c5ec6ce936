"""ResNet (He et al., 2016) and ConvNeXt (Liu et al., 2022), in stages of convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.sample import image_only, image_sides, sides
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_IMAGE_SIZE = 224
"""Pixels a side of an image where neither the config nor an option says it."""
_MOST_STAGES = 8
_MOST_BLOCKS = 1000
_REDUCTION = 4  # of the features in the middle of a bottleneck
_DEPTHWISE = 7  # side of the windows of a ConvNeXt
_WIDENING = 4


def stages(config: Config) -> list[tuple[int, int]]:
    """Return the blocks and the features of each stage."""
    depths, features = (config.numbers(key) or [] for key in ("depths", "hidden_sizes"))
    most = max([*depths, *(each >> 16 for each in features), 1])
    if not 1 <= len(depths) == len(features) <= _MOST_STAGES or min(*depths, *features) < 1 or most > _MOST_BLOCKS:
        allowed = f"as many as hidden_sizes, 1 to {_MOST_STAGES}, each from 1 to {_MOST_BLOCKS}"
        config.wrong("depths", f"expected {allowed} (got {depths} and {features})", depths, allowed)
        return [(1, _REDUCTION)]
    return list(zip(depths, features, strict=True))


def resnet(net: BlockBuilder, config: Config) -> None:
    """Build a ResNet with its classifier, or the pooled body of ResNetModel."""
    image_only(config, "a ResNet")
    net.sample = "image"
    kind = config.architecture(["ResNetForImageClassification", "ResNetModel"])
    found, labels, function = stages(config), config.labels(), config.function("hidden_act")
    width, channels = config.size("embedding_size"), config.size("num_channels")
    bottleneck = config.choice("layer_type", ("bottleneck", "basic")) == "bottleneck"
    first, early = config.flag("downsample_in_first_stage"), config.flag("downsample_in_bottleneck")
    config.without_effect("_out_features", "_out_indices", "out_features", "out_indices", "stage_names")
    side = _side(config)
    config.check()
    block = _Block(function, bottleneck, early)
    x = block.convolution(net, "stem", net.input(channels, side, side), width, kernel=7, stride=2)
    x = net.pool("stem.pool", x, 3, 2, pad=1)
    for stage, (depth, features) in enumerate(found):
        for number in range(depth):
            stride = 2 if number == 0 and (stage > 0 or first) else 1
            x = block.add(net, f"stages.{stage}.{number}", x, features, stride)
    x = net.global_pool("pool", x)
    net.loss("loss", net.fully_connected("classifier", x, labels) if kind.endswith("Classification") else x)


@dataclass(frozen=True)
class _Block:
    function: str
    bottleneck: bool
    early: bool  # whether the first convolution of a bottleneck has the stride

    def convolution(
        self, net: BlockBuilder, name: str, x: Tensor, features: int, kernel: int, stride: int = 1, acts: bool = True
    ) -> Tensor:
        """Add a convolution without bias, a batch norm, and perhaps an activation."""
        x = net.conv(f"{name}.convolution", x, features, kernel, stride, pad=kernel // 2, bias=False)
        x = net.batch_norm(f"{name}.norm", x)
        return net.activation(f"{name}.act", self.function, x) if acts else x

    def add(self, net: BlockBuilder, name: str, x: Tensor, features: int, stride: int) -> Tensor:
        """Add a block and its shortcut, which is projected where the shape changes."""
        if self.bottleneck:
            inner, first = max(1, features // _REDUCTION), stride if self.early else 1
            y = self.convolution(net, f"{name}.1", x, inner, 1, first)
            y = self.convolution(net, f"{name}.2", y, inner, 3, stride // first)
            y = self.convolution(net, f"{name}.3", y, features, 1, acts=False)
        else:
            y = self.convolution(net, f"{name}.1", x, features, 3, stride)
            y = self.convolution(net, f"{name}.2", y, features, 3, acts=False)
        if x.channels != features or stride > 1:
            x = self.convolution(net, f"{name}.shortcut", x, features, 1, stride, acts=False)
        return net.activation(f"{name}.act", self.function, net.add(f"{name}.add", y, x))


def convnext(net: BlockBuilder, config: Config) -> None:
    """Build a ConvNeXt with its classifier, or the pooled body of ConvNextModel."""
    image_only(config, "a ConvNeXt")
    net.sample = "image"
    kind = config.architecture(["ConvNextForImageClassification", "ConvNextModel"])
    found, labels, function = stages(config), config.labels(), config.function("hidden_act")
    image, patch, channels = (
        image_sides(config, interpolated=False),
        sides(config, "patch_size"),
        config.size("num_channels"),
    )
    scaled, drops = config.number("layer_scale_init_value") > 0, config.drops("drop_path_rate")
    config.without_effect("_out_features", "_out_indices", "out_features", "out_indices", "stage_names")
    num = config.size("num_stages")
    if num != len(found):
        config.wrong("num_stages", f"expected as many as depths, {len(found)} (got {num})", num, str(len(found)))
    if min(image) < max(patch) << (len(found) - 1):
        config.wrong("patch_size", f"an image of {min(image)} pixels is too small for {len(found)} stages", max(patch))
    config.check()
    x = net.conv("patches", net.input(channels, *image), found[0][1], kernel=patch, stride=patch)
    x = net.layer_norm("patches.norm", x)
    for stage, (depth, features) in enumerate(found):
        if stage:
            x = net.layer_norm(f"stages.{stage}.down.norm", x)
            x = net.conv(f"stages.{stage}.down", x, features, kernel=2, stride=2)
        for number in range(depth):
            x = _depthwise_block(net, f"stages.{stage}.{number}", x, function, scaled, drops and stage + number > 0)
    x = net.layer_norm("norm", net.global_pool("pool", x))
    net.loss("loss", net.fully_connected("classifier", x, labels) if kind.endswith("Classification") else x)


def _depthwise_block(net: BlockBuilder, name: str, x: Tensor, function: str, scaled: bool, drops_path: bool) -> Tensor:
    """Add a convolution of each feature by itself, and two linear layers over the features, channels last."""
    y = net.conv(f"{name}.depthwise", x, x.channels, _DEPTHWISE, pad=_DEPTHWISE // 2, groups=x.channels)
    y = net.layer_norm(f"{name}.norm", net.copied(f"{name}.turn", y, y))
    y = net.activation(f"{name}.act", function, net.linear(f"{name}.in", y, _WIDENING * x.channels))
    y = net.linear(f"{name}.out", y, x.channels)
    if scaled:
        y = net.learned_scale(f"{name}.scale", y)
    if drops_path:
        y = net.drop_path(f"{name}.drop_path", y)
    return net.add(f"{name}.add", x, y)


def _side(config: Config) -> int:
    """Return the side of an image, of a class whose configs do not say it."""
    asked = config.asked_image_size()
    if asked is None:
        config.notes.append(f"an image is {_IMAGE_SIZE} x {_IMAGE_SIZE} pixels; change this with --image-size")
    return asked or _IMAGE_SIZE
