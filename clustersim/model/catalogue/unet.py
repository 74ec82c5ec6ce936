"""U-Net (Ronneberger et al., 2015) as simplified in torchgpipe's benchmarks: 192 x 192 images, one output channel."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_DEPTH = 5


def unet(num_convs: int, channels: int) -> Callable[[], Model]:
    """Return a builder of U-Net (B, C): B convolutions a cell, C channels in the first of five, then doubling in each.

    In the expanding path every cell reads the output of the cell of the same level in the contracting path, in addition
    to the output of the level below.
    """

    def build() -> Model:
        name = f"unet-{num_convs}-{channels}"
        net = Builder(name, f"U-Net ({num_convs}, {channels})", source="torchgpipe, benchmarks/models/unet")
        x = net.input(3, 192, 192)
        skips: list[Tensor] = []
        for level in range(_DEPTH):
            x = _cell(net, f"down{level}", x, num_convs, channels * 2**level, channels * 2**level)
            skips.append(x)
            x = net.pool(f"down{level}.pool", x, 2, 2)
        x = _cell(net, "bottom", x, num_convs, channels * 2**_DEPTH, channels * 2 ** (_DEPTH - 1))
        for level in reversed(range(_DEPTH)):
            x = net.upsample(f"up{level}.upsample", x, 2)
            x = net.concat(f"up{level}.concat", x, skips[level])
            filters = channels * 2**level // 2
            x = _cell(net, f"up{level}", x, num_convs, filters, filters)
        net.loss("loss", net.conv("segment", x, 1, 1, bias=False))
        return net.model()

    return build


def _cell(net: Builder, name: str, x: Tensor, num_convs: int, hidden: int, out: int) -> Tensor:
    """Apply convolution, dropout, instance norm and ReLU `num_convs` times."""
    for number in range(num_convs):
        filters = out if number == num_convs - 1 else hidden
        x = net.conv(f"{name}.{number}.conv", x, filters, 3, pad=1, bias=False)
        x = net.dropout(f"{name}.{number}.drop", x)
        x = net.instance_norm(f"{name}.{number}.norm", x)
        x = net.relu(f"{name}.{number}.relu", x)
    return x
