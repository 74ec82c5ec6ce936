"""SqueezeNet 1.0: fire modules, which squeeze the channels before they expand them."""

from __future__ import annotations

from clustersim.profiling.net import TorchNet, Value


def squeezenet(net: TorchNet) -> None:
    """Build SqueezeNet 1.0."""
    x = net.image(3, 224, 224)
    x = net.relu("relu_conv1", net.conv("conv1", x, 96, kernel=7, stride=2))
    x = net.max_pool("pool1", x, 3, 2, ceil=True)
    for number, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64), start=2):
        x = _fire(net, f"fire{number}", x, squeeze)
        if number in (4, 8):
            x = net.max_pool(f"pool{number}", x, 3, 2, ceil=True)
    x = net.conv("conv10", net.dropout("drop9", x), 1000, kernel=1)
    net.loss("loss", net.global_pool("pool10", net.relu("relu_conv10", x)))


def _fire(net: TorchNet, name: str, x: Value, squeeze: int) -> Value:
    x = net.relu(f"{name}/relu_squeeze1x1", net.conv(f"{name}/squeeze1x1", x, squeeze, kernel=1))
    a = net.relu(f"{name}/relu_expand1x1", net.conv(f"{name}/expand1x1", x, 4 * squeeze, kernel=1))
    b = net.relu(f"{name}/relu_expand3x3", net.conv(f"{name}/expand3x3", x, 4 * squeeze, kernel=3, pad=1))
    return net.concat(f"{name}/concat", a, b)
