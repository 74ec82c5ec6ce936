"""GoogLeNet, in Caffe's version."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.profiling.net import TorchNet, Value

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
_HEADS = {"4a": "loss1", "4d": "loss2"}
_HEAD_WEIGHT = 0.3


def googlenet(auxiliary: bool) -> Callable[[TorchNet], None]:
    """Return a builder of GoogLeNet, with or without its two training heads."""

    def write(net: TorchNet) -> None:
        x = net.image(3, 224, 224)
        x = _conv(net, "conv1/7x7_s2", x, 64, kernel=7, stride=2, pad=3)
        x = net.lrn("pool1/norm1", net.max_pool("pool1/3x3_s2", x, 3, 2, ceil=True))
        x = _conv(net, "conv2/3x3_reduce", x, 64, kernel=1)
        x = _conv(net, "conv2/3x3", x, 192, kernel=3, pad=1)
        x = net.max_pool("pool2/3x3_s2", net.lrn("conv2/norm2", x), 3, 2, ceil=True)
        for block, filters in _INCEPTIONS.items():
            x = _inception(net, f"inception_{block}", x, filters)
            if block in ("3b", "4e"):
                x = net.max_pool(f"pool{block[0]}/3x3_s2", x, 3, 2, ceil=True)
            if auxiliary and block in _HEADS:
                _head(net, _HEADS[block], x)
        x = net.dropout("pool5/drop_7x7_s1", net.global_pool("pool5/7x7_s1", x), 0.4)
        net.loss("loss3/loss3", net.fully_connected("loss3/classifier", x, 1000))

    return write


def _inception(net: TorchNet, name: str, x: Value, filters: tuple[int, int, int, int, int, int]) -> Value:
    one, reduce_three, three, reduce_five, five, projection = filters
    a = _conv(net, f"{name}/1x1", x, one, kernel=1)
    b = _conv(net, f"{name}/3x3_reduce", x, reduce_three, kernel=1)
    b = _conv(net, f"{name}/3x3", b, three, kernel=3, pad=1)
    c = _conv(net, f"{name}/5x5_reduce", x, reduce_five, kernel=1)
    c = _conv(net, f"{name}/5x5", c, five, kernel=5, pad=2)
    d = net.max_pool(f"{name}/pool", x, 3, 1, pad=1)
    d = _conv(net, f"{name}/pool_proj", d, projection, kernel=1)
    return net.concat(f"{name}/output", a, b, c, d)


def _head(net: TorchNet, name: str, x: Value) -> None:
    x = net.mean_pool(f"{name}/ave_pool", x, 5, 3, ceil=True)
    x = net.fully_connected(f"{name}/fc", _conv(net, f"{name}/conv", x, 128, kernel=1), 1024)
    x = net.dropout(f"{name}/drop_fc", net.relu(f"{name}/relu_fc", x), 0.7)
    net.loss(f"{name}/loss", net.fully_connected(f"{name}/classifier", x, 1000), _HEAD_WEIGHT)


def _conv(net: TorchNet, name: str, x: Value, filters: int, kernel: int, stride: int = 1, pad: int = 0) -> Value:
    folder, _, last = name.rpartition("/")
    return net.relu(f"{folder}/relu_{last.removesuffix('_s2')}", net.conv(name, x, filters, kernel, stride, pad))
