"""GoogLeNet (Szegedy et al., 2015), in Caffe's version."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_SOURCE = "Going deeper with convolutions (2015), table 1; Caffe, models/bvlc_googlenet"

# filters of: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection
_INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
_AUXILIARY = {"4a": "loss1", "4d": "loss2"}


def googlenet() -> Model:
    """Return GoogLeNet without the auxiliary classifiers: the network used after training."""
    return _googlenet(Builder("googlenet", "GoogLeNet, no auxiliary heads", source=_SOURCE), auxiliary=False)


def googlenet_aux() -> Model:
    """Return GoogLeNet with both auxiliary classifiers: the network that is trained."""
    return _googlenet(Builder("googlenet-aux", "GoogLeNet, both auxiliary heads", source=_SOURCE), auxiliary=True)


def _googlenet(net: Builder, auxiliary: bool) -> Model:
    x = net.input(3, 224, 224)
    x = _conv(net, "conv1/7x7_s2", x, 64, kernel=7, stride=2, pad=3)
    x = net.lrn("pool1/norm1", net.pool("pool1/3x3_s2", x, 3, 2, ceil=True))
    x = _conv(net, "conv2/3x3_reduce", x, 64, kernel=1)
    x = _conv(net, "conv2/3x3", x, 192, kernel=3, pad=1)
    x = net.pool("pool2/3x3_s2", net.lrn("conv2/norm2", x), 3, 2, ceil=True)
    for block, filters in _INCEPTIONS.items():
        x = _inception(net, f"inception_{block}", x, filters)
        if block in ("3b", "4e"):
            x = net.pool(f"pool{int(block[0])}/3x3_s2", x, 3, 2, ceil=True)
        if auxiliary and block in _AUXILIARY:
            _auxiliary_head(net, _AUXILIARY[block], x)
    x = net.global_pool("pool5/7x7_s1", x)
    x = net.dropout("pool5/drop_7x7_s1", x)
    x = net.fully_connected("loss3/classifier", x, 1000)
    net.loss("loss3/loss3", x)
    return net.model()


def _inception(net: Builder, name: str, x: Tensor, filters: tuple[int, int, int, int, int, int]) -> Tensor:
    one, reduce_three, three, reduce_five, five, projection = filters
    with net.branch("1x1"):
        a = _conv(net, f"{name}/1x1", x, one, kernel=1)
    with net.branch("3x3"):
        b = _conv(net, f"{name}/3x3_reduce", x, reduce_three, kernel=1)
        b = _conv(net, f"{name}/3x3", b, three, kernel=3, pad=1)
    with net.branch("5x5"):
        c = _conv(net, f"{name}/5x5_reduce", x, reduce_five, kernel=1)
        c = _conv(net, f"{name}/5x5", c, five, kernel=5, pad=2)
    with net.branch("pool"):
        d = net.pool(f"{name}/pool", x, 3, 1, pad=1)
        d = _conv(net, f"{name}/pool_proj", d, projection, kernel=1)
    return net.concat(f"{name}/output", a, b, c, d)


def _auxiliary_head(net: Builder, name: str, x: Tensor) -> None:
    x = net.pool(f"{name}/ave_pool", x, 5, 3, ceil=True, mean=True)
    x = _conv(net, f"{name}/conv", x, 128, kernel=1)
    x = net.fully_connected(f"{name}/fc", x, 1024)
    x = net.dropout(f"{name}/drop_fc", net.relu(f"{name}/relu_fc", x))
    x = net.fully_connected(f"{name}/classifier", x, 1000)
    net.loss(f"{name}/loss", x)


def _conv(net: Builder, name: str, x: Tensor, filters: int, kernel: int, stride: int = 1, pad: int = 0) -> Tensor:
    x = net.conv(name, x, filters, kernel, stride, pad)
    folder, _, last = name.rpartition("/")
    return net.relu(f"{folder}/relu_{last.removesuffix('_s2')}", x)
