"""AlexNet: two towers with local response normalisation as in Caffe, and torchvision's single tower."""

from __future__ import annotations

from clustersim.profiling.net import TorchNet, Value


def alexnet(net: TorchNet) -> None:
    """Build the single tower of 2014."""
    x = net.image(3, 224, 224)
    x = _conv(net, "1", x, 64, kernel=11, stride=4, pad=2)
    x = net.max_pool("pool1", x, 3, 2)
    x = _conv(net, "2", x, 192, kernel=5, pad=2)
    x = net.max_pool("pool2", x, 3, 2)
    x = _conv(net, "3", x, 384, kernel=3, pad=1)
    x = _conv(net, "4", x, 256, kernel=3, pad=1)
    x = _conv(net, "5", x, 256, kernel=3, pad=1)
    classifier(net, net.max_pool("pool5", x, 3, 2))


def two_towers(net: TorchNet) -> None:
    """Build the network of 2012, which normalises before it pools."""
    _towers(net, norm_first=True)


def caffenet(net: TorchNet) -> None:
    """Build Caffe's reference network, which pools before it normalises."""
    _towers(net, norm_first=False)


def _towers(net: TorchNet, norm_first: bool) -> None:
    def shrink(number: str, x: Value) -> Value:
        norm, pool = f"norm{number}", f"pool{number}"
        if norm_first:
            return net.max_pool(pool, net.lrn(norm, x), 3, 2, ceil=True)
        return net.lrn(norm, net.max_pool(pool, x, 3, 2, ceil=True))

    x = net.image(3, 227, 227)
    x = shrink("1", _conv(net, "1", x, 96, kernel=11, stride=4))
    x = shrink("2", _conv(net, "2", x, 256, kernel=5, pad=2, groups=2))
    x = _conv(net, "3", x, 384, kernel=3, pad=1)
    x = _conv(net, "4", x, 384, kernel=3, pad=1, groups=2)
    x = _conv(net, "5", x, 256, kernel=3, pad=1, groups=2)
    classifier(net, net.max_pool("pool5", x, 3, 2, ceil=True))


def classifier(net: TorchNet, x: Value) -> None:
    """End with three fully connected layers, as in VGG."""
    for number in ("6", "7"):
        x = net.relu(f"relu{number}", net.fully_connected(f"fc{number}", x, 4096))
        x = net.dropout(f"drop{number}", x)
    net.loss("loss", net.fully_connected("fc8", x, 1000))


def _conv(
    net: TorchNet, number: str, x: Value, filters: int, kernel: int, stride: int = 1, pad: int = 0, groups: int = 1
) -> Value:
    return net.relu(f"relu{number}", net.conv(f"conv{number}", x, filters, kernel, stride, pad, groups))
