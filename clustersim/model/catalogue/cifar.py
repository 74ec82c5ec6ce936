"""Networks reduced to the 32 x 32 images of CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_CLASSES = 10
_VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # filters, convolutions, and a pooling behind them


def cifar_resnet(depth: int) -> Callable[[], Model]:
    """Return a builder of the ResNet of 6 n + 2 layers of the paper's section 4.2.

    Shortcuts have no parameters: where the shape changes, every second pixel is kept and new channels are zero (option
    A).
    """
    num_blocks, rest = divmod(depth - 2, 6)
    assert rest == 0, f"a ResNet for CIFAR-10 has 6 n + 2 layers, not {depth}"

    def build() -> Model:
        net = Builder(f"resnet{depth}", f"ResNet-{depth} for CIFAR-10", source="arXiv:1512.03385, section 4.2")
        x = _conv(net, "conv1", net.input(3, 32, 32), 16, relu=True)
        for stage, filters in enumerate((16, 32, 64), start=1):
            for number in range(num_blocks):
                stride = 2 if stage > 1 and number == 0 else 1
                x = _block(net, f"layer{stage}.{number}", x, filters, stride)
        x = net.global_pool("avgpool", x)
        net.loss("loss", net.fully_connected("fc", x, _CLASSES))
        return net.model()

    return build


def cifar_vgg16() -> Model:
    """Return VGG-16's convolutions, each with batch norm, and one layer of ten classes behind them."""
    net = Builder("vgg16-cifar", "VGG-16 for CIFAR-10", source="arXiv:1409.1556, table 1, D; arXiv:1502.03167")
    x = net.input(3, 32, 32)
    for block, (filters, num_convolutions) in enumerate(_VGG16, start=1):
        for number in range(1, num_convolutions + 1):
            x = _conv(net, f"conv{block}_{number}", x, filters, relu=True, bias=True)
        x = net.pool(f"pool{block}", x, 2, 2)
    net.loss("loss", net.fully_connected("fc", x, _CLASSES))
    return net.model()


def _block(net: Builder, name: str, x: Tensor, filters: int, stride: int) -> Tensor:
    y = _conv(net, f"{name}.conv1", x, filters, stride=stride, relu=True)
    y = _conv(net, f"{name}.conv2", y, filters)
    shortcut = Tensor(y.channels, y.height, y.width)
    return net.relu(f"{name}.relu", net.add(f"{name}.add", y, shortcut))


def _conv(
    net: Builder, name: str, x: Tensor, filters: int, stride: int = 1, relu: bool = False, bias: bool = False
) -> Tensor:
    x = net.conv(name, x, filters, kernel=3, stride=stride, pad=1, bias=bias)
    x = net.batch_norm(f"{name}.bn", x)
    return net.relu(f"{name}.relu", x) if relu else x
