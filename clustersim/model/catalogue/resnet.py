"""ResNet (He et al., 2016), with the stride in the 3x3 convolution as in torchvision ("v1.5").

The paper's own place for the stride, the first 1x1 convolution, makes ResNet-50 6 % cheaper (3.86 instead
of 4.09 G multiply-adds) and changes no parameter.
"""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_FIRST_BOTTLENECK = 50
_STRIDES = (1, 2, 2, 2)


def resnet(depth: int) -> Callable[[], Model]:
    """Return a builder of a ResNet of the paper's table 1: basic blocks up to 34 layers, bottlenecks from 50 on."""

    def build() -> Model:
        net = Builder(f"resnet{depth}", f"ResNet-{depth} v1.5", source="arXiv:1512.03385, table 1; torchvision resnet")
        return _classifier(net, trunk(net, depth, net.input(3, 224, 224)))

    return build


def resnext(depth: int, width: int) -> Callable[[], Model]:
    """Return a builder of a ResNeXt (Xie et al., 2017): bottlenecks of 32 groups, `width` wide in the first stage."""
    name = f"resnext{depth}-32x{width}d"

    def build() -> Model:
        net = Builder(name, f"ResNeXt-{depth} 32x{width}d", source="arXiv:1611.05431, table 1; torchvision resnet")
        return _classifier(net, trunk(net, depth, net.input(3, 224, 224), groups=32, widening=width // 2))

    return build


def trunk(
    net: Builder, depth: int, x: Tensor, strides: tuple[int, ...] = _STRIDES, groups: int = 1, widening: int = 1
) -> Tensor:
    """Add the stages of a ResNet for which strides are given, and the layers before them.

    Bottlenecks have 3x3 convolutions of `groups` groups, on `widening` times the paper's channels.
    """
    x = _conv(net, "", "1", x, 64, kernel=7, stride=2, relu=True)
    x = net.pool("maxpool", x, 3, 2, pad=1)
    for stage, (num_blocks, stage_stride) in enumerate(zip(_BLOCKS[depth], strides, strict=False)):
        for number in range(num_blocks):
            name, stride, filters = f"layer{stage + 1}.{number}.", stage_stride if number == 0 else 1, 64 * 2**stage
            if depth >= _FIRST_BOTTLENECK:
                x = _bottleneck(net, name, x, filters, stride, groups, widening)
            else:
                x = _basic(net, name, x, filters, stride)
    return x


def _classifier(net: Builder, x: Tensor) -> Model:
    net.loss("loss", net.fully_connected("fc", net.global_pool("avgpool", x), 1000))
    return net.model()


def _bottleneck(
    net: Builder, name: str, x: Tensor, filters: int, stride: int, groups: int = 1, widening: int = 1
) -> Tensor:
    y = _conv(net, name, "1", x, widening * filters, kernel=1, relu=True)
    y = _conv(net, name, "2", y, widening * filters, kernel=3, stride=stride, relu=True, groups=groups)
    y = _conv(net, name, "3", y, 4 * filters, kernel=1)
    return _join(net, name, x, y, stride)


def _basic(net: Builder, name: str, x: Tensor, filters: int, stride: int) -> Tensor:
    y = _conv(net, name, "1", x, filters, kernel=3, stride=stride, relu=True)
    y = _conv(net, name, "2", y, filters, kernel=3)
    return _join(net, name, x, y, stride)


def _join(net: Builder, name: str, x: Tensor, y: Tensor, stride: int) -> Tensor:
    """Add the shortcut: the block's input, or a projection of it where the shape changes."""
    if x.channels != y.channels or stride > 1:
        x = net.conv(f"{name}downsample.0", x, y.channels, kernel=1, stride=stride, bias=False)
        x = net.batch_norm(f"{name}downsample.1", x)
    return net.relu(f"{name}relu", net.add(f"{name}add", y, x))


def _conv(
    net: Builder,
    name: str,
    number: str,
    x: Tensor,
    filters: int,
    kernel: int,
    stride: int = 1,
    relu: bool = False,
    groups: int = 1,
) -> Tensor:
    x = net.conv(f"{name}conv{number}", x, filters, kernel, stride, pad=kernel // 2, groups=groups, bias=False)
    x = net.batch_norm(f"{name}bn{number}", x)
    return net.relu(f"{name}relu{number}", x) if relu else x
