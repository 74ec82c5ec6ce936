"""Inception with batch normalisation (Ioffe and Szegedy, 2015), in the version of MXNet's first examples."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_SOURCE = "arXiv:1502.03167; MXNet, example/image-classification, "
_SMALL: tuple[int | tuple[int, int], ...] = (
    (32, 32),
    (32, 48),
    80,
    (112, 48),
    (96, 64),
    (80, 80),
    (48, 96),
    96,
    (176, 160),
    (176, 160),
)


def inception_bn() -> Model:
    """Return Inception-BN for ImageNet; poolings round up, and convolutions have biases."""
    net = Builder("inception-bn", "Inception-BN", source=f"{_SOURCE}symbol_inception-bn.py")
    x = _conv(net, "conv1", net.input(3, 224, 224), 64, 7, 2, 3)
    x = net.pool("pool1", x, 3, 2, ceil=True)
    x = _conv(net, "conv2red", x, 64, 1)
    x = _conv(net, "conv2", x, 192, 3, pad=1)
    x = net.pool("pool2", x, 3, 2, ceil=True)
    x = _wide(net, "3a", x, 64, (64, 64), (64, 96), 32)
    x = _wide(net, "3b", x, 64, (64, 96), (64, 96), 64)
    x = _shrink(net, "3c", x, (128, 160), (64, 96))
    x = _wide(net, "4a", x, 224, (64, 96), (96, 128), 128)
    x = _wide(net, "4b", x, 192, (96, 128), (96, 128), 128)
    x = _wide(net, "4c", x, 160, (128, 160), (128, 160), 128)
    x = _wide(net, "4d", x, 96, (128, 192), (160, 192), 128)
    x = _shrink(net, "4e", x, (128, 192), (192, 256))
    x = _wide(net, "5a", x, 352, (192, 320), (160, 224), 128)
    x = _wide(net, "5b", x, 352, (192, 320), (192, 224), 128, mean=False)
    net.loss("loss", net.fully_connected("fc1", net.global_pool("global_pool", x), 1000))
    return net.model()


def inception_bn_small() -> Model:
    """Return the simpler network for the 28 x 28 pixels that are cropped from an image of CIFAR-10."""
    title = "Inception-BN for 28 x 28 images"
    net = Builder("inception-bn-28-small", title, source=f"{_SOURCE}symbol_inception-bn-28-small.py")
    x = _conv(net, "conv1", net.input(3, 28, 28), 96, 3, pad=1)
    for number, filters in enumerate(_SMALL):
        name = f"in{number}"
        if isinstance(filters, int):
            with net.branch("3x3"):
                a = _conv(net, f"{name}.3x3", x, filters, 3, 2, 1)
            with net.branch("pool"):
                b = net.pool(f"{name}.pool", x, 3, 2, ceil=True)
        else:
            with net.branch("1x1"):
                a = _conv(net, f"{name}.1x1", x, filters[0], 1)
            with net.branch("3x3"):
                b = _conv(net, f"{name}.3x3", x, filters[1], 3, pad=1)
        x = net.concat(f"{name}.concat", a, b)
    net.loss("loss", net.fully_connected("fc1", net.global_pool("global_pool", x), 10))
    return net.model()


def _wide(
    net: Builder, name: str, x: Tensor, ones: int, single: tuple[int, int], double: tuple[int, int], pooled: int,
    mean: bool = True,
) -> Tensor:  # fmt: skip
    with net.branch("1x1"):
        a = _conv(net, f"{name}.1x1", x, ones, 1)
    with net.branch("3x3"):
        b = _conv(net, f"{name}.3x3_reduce", x, single[0], 1)
        b = _conv(net, f"{name}.3x3", b, single[1], 3, pad=1)
    with net.branch("double_3x3"):
        c = _conv(net, f"{name}.double_3x3_reduce", x, double[0], 1)
        c = _conv(net, f"{name}.double_3x3_0", c, double[1], 3, pad=1)
        c = _conv(net, f"{name}.double_3x3_1", c, double[1], 3, pad=1)
    with net.branch("pool"):
        d = _conv(net, f"{name}.proj", net.pool(f"{name}.pool", x, 3, 1, pad=1, mean=mean), pooled, 1)
    return net.concat(f"{name}.concat", a, b, c, d)


def _shrink(net: Builder, name: str, x: Tensor, single: tuple[int, int], double: tuple[int, int]) -> Tensor:
    with net.branch("3x3"):
        a = _conv(net, f"{name}.3x3_reduce", x, single[0], 1)
        a = _conv(net, f"{name}.3x3", a, single[1], 3, 2, 1)
    with net.branch("double_3x3"):
        b = _conv(net, f"{name}.double_3x3_reduce", x, double[0], 1)
        b = _conv(net, f"{name}.double_3x3_0", b, double[1], 3, pad=1)
        b = _conv(net, f"{name}.double_3x3_1", b, double[1], 3, 2, 1)
    with net.branch("pool"):
        c = net.pool(f"{name}.pool", x, 3, 2, ceil=True)
    return net.concat(f"{name}.concat", a, b, c)


def _conv(net: Builder, name: str, x: Tensor, filters: int, kernel: int, stride: int = 1, pad: int = 0) -> Tensor:
    x = net.conv(f"{name}.conv", x, filters, kernel, stride, pad)
    return net.relu(f"{name}.relu", net.batch_norm(f"{name}.bn", x))
