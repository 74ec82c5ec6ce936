"""ResNet, with the stride in the 3x3 convolution as in torchvision ("v1.5")."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.profiling.net import TorchNet, Value

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_FIRST_BOTTLENECK = 50


def resnet(depth: int) -> Callable[[TorchNet], None]:
    """Return a builder of a ResNet of `depth` layers."""
    block = _bottleneck if depth >= _FIRST_BOTTLENECK else _basic

    def write(net: TorchNet) -> None:
        x = _conv(net, "", "1", net.image(3, 224, 224), 64, kernel=7, stride=2, relu=True)
        x = net.max_pool("maxpool", x, 3, 2, pad=1)
        for stage, num_blocks in enumerate(_BLOCKS[depth]):
            for number in range(num_blocks):
                stride = 2 if stage > 0 and number == 0 else 1
                x = block(net, f"layer{stage + 1}.{number}.", x, 64 * 2**stage, stride)
        net.loss("loss", net.fully_connected("fc", net.global_pool("avgpool", x), 1000))

    return write


def _bottleneck(net: TorchNet, name: str, x: Value, filters: int, stride: int) -> Value:
    y = _conv(net, name, "1", x, filters, kernel=1, relu=True)
    y = _conv(net, name, "2", y, filters, kernel=3, stride=stride, relu=True)
    return _join(net, name, x, _conv(net, name, "3", y, 4 * filters, kernel=1), stride)


def _basic(net: TorchNet, name: str, x: Value, filters: int, stride: int) -> Value:
    y = _conv(net, name, "1", x, filters, kernel=3, stride=stride, relu=True)
    return _join(net, name, x, _conv(net, name, "2", y, filters, kernel=3), stride)


def _join(net: TorchNet, name: str, x: Value, y: Value, stride: int) -> Value:
    if x.channels != y.channels or stride > 1:
        x = net.conv(f"{name}downsample.0", x, y.channels, kernel=1, stride=stride, bias=False)
        x = net.batch_norm(f"{name}downsample.1", x)
    return net.relu(f"{name}relu", net.add(f"{name}add", y, x, inplace=True))


def _conv(
    net: TorchNet, name: str, number: str, x: Value, filters: int, kernel: int, stride: int = 1, relu: bool = False
) -> Value:
    x = net.conv(f"{name}conv{number}", x, filters, kernel, stride, pad=kernel // 2, bias=False)
    x = net.batch_norm(f"{name}bn{number}", x)
    return net.relu(f"{name}relu{number}", x) if relu else x
