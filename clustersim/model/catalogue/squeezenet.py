"""SqueezeNet 1.0 (Iandola et al., 2016)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_MEGABYTES = 4.8  # of 32-bit floats, as the paper counts


def squeezenet() -> Model:
    """Return SqueezeNet 1.0: eight fire modules between two convolutions, 1.25 M parameters."""
    net = Builder("squeezenet-1.0", "SqueezeNet 1.0", source="arXiv:1602.07360, table 1; torchvision squeezenet1_0")
    x = net.input(3, 224, 224)
    x = net.relu("relu_conv1", net.conv("conv1", x, 96, kernel=7, stride=2))
    x = net.pool("pool1", x, 3, 2, ceil=True)
    for number, squeeze in zip(range(2, 10), (16, 16, 32, 32, 48, 48, 64, 64), strict=True):
        x = _fire(net, f"fire{number}", x, squeeze)
        if number in (4, 8):
            x = net.pool(f"pool{number}", x, 3, 2, ceil=True)
    x = net.dropout("drop9", x)
    x = net.relu("relu_conv10", net.conv("conv10", x, 1000, kernel=1))
    net.loss("loss", net.global_pool("pool10", x))
    return net.model()


def compressed_squeezenet(name: str, what: str, megabytes: float) -> Callable[[], Model]:
    """Return a builder of SqueezeNet whose weights are stored in `megabytes`; the uncompressed ones take 4.8.

    The small sizes are the paper's table 2, where Deep Compression (Han et al., 2016) prunes two weights of three and
    clusters the rest into 8 or 6 bits; 16 bits are half. Layers and FLOP are the dense model's: no GPU here is faster
    with such weights.
    """

    def make() -> Model:
        title = f"SqueezeNet 1.0, {what} ({megabytes:g} MB)"
        source = "arXiv:1602.07360, tables 1 and 2; arXiv:1510.00149"
        return replace(squeezenet(), name=name, title=title, source=source, weight_share=megabytes / _MEGABYTES)

    return make


def _fire(net: Builder, name: str, x: Tensor, squeeze: int) -> Tensor:
    expand = 4 * squeeze
    x = net.relu(f"{name}/relu_squeeze1x1", net.conv(f"{name}/squeeze1x1", x, squeeze, kernel=1))
    with net.branch("1x1"):
        a = net.relu(f"{name}/relu_expand1x1", net.conv(f"{name}/expand1x1", x, expand, kernel=1))
    with net.branch("3x3"):
        b = net.relu(f"{name}/relu_expand3x3", net.conv(f"{name}/expand3x3", x, expand, kernel=3, pad=1))
    return net.concat(f"{name}/concat", a, b)
