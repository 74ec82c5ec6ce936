"""Inception-v3 (Szegedy et al., 2016), in torchvision's version."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.profiling.net import Pair, TorchNet, Value

_HEAD_WEIGHT = 0.4


def inception_v3(auxiliary: bool) -> Callable[[TorchNet], None]:
    """Return a builder of Inception-v3, with or without the auxiliary head of some training recipes."""

    def write(net: TorchNet) -> None:
        x = net.image(3, 299, 299)
        x = _conv(net, "Conv2d_1a_3x3", x, 32, 3, stride=2)
        x = _conv(net, "Conv2d_2a_3x3", x, 32, 3)
        x = _conv(net, "Conv2d_2b_3x3", x, 64, 3, pad=1)
        x = net.max_pool("maxpool1", x, 3, 2)
        x = _conv(net, "Conv2d_3b_1x1", x, 80, 1)
        x = _conv(net, "Conv2d_4a_3x3", x, 192, 3)
        x = net.max_pool("maxpool2", x, 3, 2)
        for name, pool_filters in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
            x = _square(net, name, x, pool_filters)
        x = _shrink_to_17(net, "Mixed_6a", x)
        for name, filters in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
            x = _factored(net, name, x, filters)
        if auxiliary:
            _head(net, "AuxLogits", x)
        x = _shrink_to_8(net, "Mixed_7a", x)
        for name in ("Mixed_7b", "Mixed_7c"):
            x = _wide(net, name, x)
        x = net.dropout("dropout", net.global_pool("avgpool", x))
        net.loss("loss", net.fully_connected("fc", x, 1000))

    return write


def _square(net: TorchNet, name: str, x: Value, pool_filters: int) -> Value:
    """Figure 5 of the paper, with one 5x5 kept."""
    a = _conv(net, f"{name}.branch1x1", x, 64, 1)
    b = _conv(net, f"{name}.branch5x5_1", x, 48, 1)
    b = _conv(net, f"{name}.branch5x5_2", b, 64, 5, pad=2)
    c = _conv(net, f"{name}.branch3x3dbl_1", x, 64, 1)
    c = _conv(net, f"{name}.branch3x3dbl_2", c, 96, 3, pad=1)
    c = _conv(net, f"{name}.branch3x3dbl_3", c, 96, 3, pad=1)
    d = _pool_branch(net, name, x, pool_filters)
    return net.concat(f"{name}.concat", a, b, c, d)


def _shrink_to_17(net: TorchNet, name: str, x: Value) -> Value:
    a = _conv(net, f"{name}.branch3x3", x, 384, 3, stride=2)
    b = _conv(net, f"{name}.branch3x3dbl_1", x, 64, 1)
    b = _conv(net, f"{name}.branch3x3dbl_2", b, 96, 3, pad=1)
    b = _conv(net, f"{name}.branch3x3dbl_3", b, 96, 3, stride=2)
    return net.concat(f"{name}.concat", a, b, net.max_pool(f"{name}.maxpool", x, 3, 2))


def _factored(net: TorchNet, name: str, x: Value, filters: int) -> Value:
    """Figure 6: a 7x7 as a row and a column."""
    row, column = (1, 7), (7, 1)
    a = _conv(net, f"{name}.branch1x1", x, 192, 1)
    b = _conv(net, f"{name}.branch7x7_1", x, filters, 1)
    b = _conv(net, f"{name}.branch7x7_2", b, filters, row, pad=(0, 3))
    b = _conv(net, f"{name}.branch7x7_3", b, 192, column, pad=(3, 0))
    c = _conv(net, f"{name}.branch7x7dbl_1", x, filters, 1)
    c = _conv(net, f"{name}.branch7x7dbl_2", c, filters, column, pad=(3, 0))
    c = _conv(net, f"{name}.branch7x7dbl_3", c, filters, row, pad=(0, 3))
    c = _conv(net, f"{name}.branch7x7dbl_4", c, filters, column, pad=(3, 0))
    c = _conv(net, f"{name}.branch7x7dbl_5", c, 192, row, pad=(0, 3))
    d = _pool_branch(net, name, x, 192)
    return net.concat(f"{name}.concat", a, b, c, d)


def _shrink_to_8(net: TorchNet, name: str, x: Value) -> Value:
    a = _conv(net, f"{name}.branch3x3_1", x, 192, 1)
    a = _conv(net, f"{name}.branch3x3_2", a, 320, 3, stride=2)
    b = _conv(net, f"{name}.branch7x7x3_1", x, 192, 1)
    b = _conv(net, f"{name}.branch7x7x3_2", b, 192, (1, 7), pad=(0, 3))
    b = _conv(net, f"{name}.branch7x7x3_3", b, 192, (7, 1), pad=(3, 0))
    b = _conv(net, f"{name}.branch7x7x3_4", b, 192, 3, stride=2)
    return net.concat(f"{name}.concat", a, b, net.max_pool(f"{name}.maxpool", x, 3, 2))


def _wide(net: TorchNet, name: str, x: Value) -> Value:
    """Figure 7: the row and the column in parallel."""
    a = _conv(net, f"{name}.branch1x1", x, 320, 1)
    b = _conv(net, f"{name}.branch3x3_1", x, 384, 1)
    b = _both(net, f"{name}.branch3x3_2", b)
    c = _conv(net, f"{name}.branch3x3dbl_1", x, 448, 1)
    c = _conv(net, f"{name}.branch3x3dbl_2", c, 384, 3, pad=1)
    c = _both(net, f"{name}.branch3x3dbl_3", c)
    d = _pool_branch(net, name, x, 192)
    return net.concat(f"{name}.concat", a, b, c, d)


def _both(net: TorchNet, name: str, x: Value) -> Value:
    row = _conv(net, f"{name}a", x, 384, (1, 3), pad=(0, 1))
    column = _conv(net, f"{name}b", x, 384, (3, 1), pad=(1, 0))
    return net.concat(f"{name}.concat", row, column)


def _pool_branch(net: TorchNet, name: str, x: Value, filters: int) -> Value:
    return _conv(net, f"{name}.branch_pool", net.mean_pool(f"{name}.avg_pool", x, 3, 1, pad=1), filters, 1)


def _head(net: TorchNet, name: str, x: Value) -> None:
    x = net.mean_pool(f"{name}.avg_pool", x, 5, 3)
    x = _conv(net, f"{name}.conv0", x, 128, 1)
    x = _conv(net, f"{name}.conv1", x, 768, 5)
    x = net.fully_connected(f"{name}.fc", net.global_pool(f"{name}.global_pool", x), 1000)
    net.loss(f"{name}.loss", x, _HEAD_WEIGHT)


def _conv(net: TorchNet, name: str, x: Value, filters: int, kernel: Pair, stride: int = 1, pad: Pair = 0) -> Value:
    x = net.conv(f"{name}.conv", x, filters, kernel, stride, pad, bias=False)
    return net.relu(f"{name}.relu", net.batch_norm(f"{name}.bn", x))
