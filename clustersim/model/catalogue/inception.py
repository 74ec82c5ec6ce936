"""Inception-v3 (Szegedy et al., 2016), in torchvision's version."""

from __future__ import annotations

from clustersim.model.builder import Builder, Pair, Tensor
from clustersim.model.layer import Model

_SOURCE = "arXiv:1512.00567, table 1; torchvision inception_v3"


def inception_v3() -> Model:
    """Return Inception-v3 without the auxiliary classifier; images are 299 x 299."""
    return _inception_v3(Builder("inception-v3", "Inception-v3, no auxiliary head", source=_SOURCE), auxiliary=False)


def inception_v3_aux() -> Model:
    """Return Inception-v3 with the auxiliary classifier: the network of the training recipe."""
    return _inception_v3(Builder("inception-v3-aux", "Inception-v3, auxiliary head", source=_SOURCE), auxiliary=True)


def _inception_v3(net: Builder, auxiliary: bool) -> Model:
    x = net.input(3, 299, 299)
    x = _conv(net, "Conv2d_1a_3x3", x, 32, 3, stride=2)
    x = _conv(net, "Conv2d_2a_3x3", x, 32, 3)
    x = _conv(net, "Conv2d_2b_3x3", x, 64, 3, pad=1)
    x = net.pool("maxpool1", x, 3, 2)
    x = _conv(net, "Conv2d_3b_1x1", x, 80, 1)
    x = _conv(net, "Conv2d_4a_3x3", x, 192, 3)
    x = net.pool("maxpool2", x, 3, 2)
    for name, pool_filters in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        x = _square(net, name, x, pool_filters)
    x = _shrink_to_17(net, "Mixed_6a", x)
    for name, filters in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        x = _factored(net, name, x, filters)
    if auxiliary:
        _auxiliary_head(net, "AuxLogits", x)
    x = _shrink_to_8(net, "Mixed_7a", x)
    for name in ("Mixed_7b", "Mixed_7c"):
        x = _wide(net, name, x)
    x = net.dropout("dropout", net.global_pool("avgpool", x))
    net.loss("loss", net.fully_connected("fc", x, 1000))
    return net.model()


def _square(net: Builder, name: str, x: Tensor, pool_filters: int) -> Tensor:
    """Figure 5 of the paper, with one 5x5 kept."""
    with net.branch("1x1"):
        a = _conv(net, f"{name}.branch1x1", x, 64, 1)
    with net.branch("5x5"):
        b = _conv(net, f"{name}.branch5x5_1", x, 48, 1)
        b = _conv(net, f"{name}.branch5x5_2", b, 64, 5, pad=2)
    with net.branch("3x3dbl"):
        c = _conv(net, f"{name}.branch3x3dbl_1", x, 64, 1)
        c = _conv(net, f"{name}.branch3x3dbl_2", c, 96, 3, pad=1)
        c = _conv(net, f"{name}.branch3x3dbl_3", c, 96, 3, pad=1)
    d = _pool_branch(net, name, x, pool_filters)
    return net.concat(f"{name}.concat", a, b, c, d)


def _shrink_to_17(net: Builder, name: str, x: Tensor) -> Tensor:
    with net.branch("3x3"):
        a = _conv(net, f"{name}.branch3x3", x, 384, 3, stride=2)
    with net.branch("3x3dbl"):
        b = _conv(net, f"{name}.branch3x3dbl_1", x, 64, 1)
        b = _conv(net, f"{name}.branch3x3dbl_2", b, 96, 3, pad=1)
        b = _conv(net, f"{name}.branch3x3dbl_3", b, 96, 3, stride=2)
    with net.branch("pool"):
        c = net.pool(f"{name}.maxpool", x, 3, 2)
    return net.concat(f"{name}.concat", a, b, c)


def _factored(net: Builder, name: str, x: Tensor, filters: int) -> Tensor:
    """Figure 6: a 7x7 as a row and a column."""
    row, column = (1, 7), (7, 1)
    with net.branch("1x1"):
        a = _conv(net, f"{name}.branch1x1", x, 192, 1)
    with net.branch("7x7"):
        b = _conv(net, f"{name}.branch7x7_1", x, filters, 1)
        b = _conv(net, f"{name}.branch7x7_2", b, filters, row, pad=(0, 3))
        b = _conv(net, f"{name}.branch7x7_3", b, 192, column, pad=(3, 0))
    with net.branch("7x7dbl"):
        c = _conv(net, f"{name}.branch7x7dbl_1", x, filters, 1)
        c = _conv(net, f"{name}.branch7x7dbl_2", c, filters, column, pad=(3, 0))
        c = _conv(net, f"{name}.branch7x7dbl_3", c, filters, row, pad=(0, 3))
        c = _conv(net, f"{name}.branch7x7dbl_4", c, filters, column, pad=(3, 0))
        c = _conv(net, f"{name}.branch7x7dbl_5", c, 192, row, pad=(0, 3))
    d = _pool_branch(net, name, x, 192)
    return net.concat(f"{name}.concat", a, b, c, d)


def _shrink_to_8(net: Builder, name: str, x: Tensor) -> Tensor:
    with net.branch("3x3"):
        a = _conv(net, f"{name}.branch3x3_1", x, 192, 1)
        a = _conv(net, f"{name}.branch3x3_2", a, 320, 3, stride=2)
    with net.branch("7x7x3"):
        b = _conv(net, f"{name}.branch7x7x3_1", x, 192, 1)
        b = _conv(net, f"{name}.branch7x7x3_2", b, 192, (1, 7), pad=(0, 3))
        b = _conv(net, f"{name}.branch7x7x3_3", b, 192, (7, 1), pad=(3, 0))
        b = _conv(net, f"{name}.branch7x7x3_4", b, 192, 3, stride=2)
    with net.branch("pool"):
        c = net.pool(f"{name}.maxpool", x, 3, 2)
    return net.concat(f"{name}.concat", a, b, c)


def _wide(net: Builder, name: str, x: Tensor) -> Tensor:
    """Figure 7: the row and the column in parallel."""
    with net.branch("1x1"):
        a = _conv(net, f"{name}.branch1x1", x, 320, 1)
    with net.branch("3x3"):
        b = _conv(net, f"{name}.branch3x3_1", x, 384, 1)
        b = _both(net, f"{name}.branch3x3_2", b)
    with net.branch("3x3dbl"):
        c = _conv(net, f"{name}.branch3x3dbl_1", x, 448, 1)
        c = _conv(net, f"{name}.branch3x3dbl_2", c, 384, 3, pad=1)
        c = _both(net, f"{name}.branch3x3dbl_3", c)
    d = _pool_branch(net, name, x, 192)
    return net.concat(f"{name}.concat", a, b, c, d)


def _both(net: Builder, name: str, x: Tensor) -> Tensor:
    row = _conv(net, f"{name}a", x, 384, (1, 3), pad=(0, 1))
    column = _conv(net, f"{name}b", x, 384, (3, 1), pad=(1, 0))
    return net.concat(f"{name}.concat", row, column)


def _pool_branch(net: Builder, name: str, x: Tensor, filters: int) -> Tensor:
    with net.branch("pool"):
        return _conv(net, f"{name}.branch_pool", net.pool(f"{name}.avg_pool", x, 3, 1, pad=1, mean=True), filters, 1)


def _auxiliary_head(net: Builder, name: str, x: Tensor) -> None:
    x = net.pool(f"{name}.avg_pool", x, 5, 3, mean=True)
    x = _conv(net, f"{name}.conv0", x, 128, 1)
    x = _conv(net, f"{name}.conv1", x, 768, 5)
    x = net.fully_connected(f"{name}.fc", net.global_pool(f"{name}.global_pool", x), 1000)
    net.loss(f"{name}.loss", x)


def _conv(net: Builder, name: str, x: Tensor, filters: int, kernel: Pair, stride: int = 1, pad: Pair = 0) -> Tensor:
    x = net.conv(f"{name}.conv", x, filters, kernel, stride, pad, bias=False)
    return net.relu(f"{name}.relu", net.batch_norm(f"{name}.bn", x))
