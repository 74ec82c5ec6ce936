"""Network in network: each convolution has two 1x1 convolutions behind it."""

from __future__ import annotations

from clustersim.profiling.net import TorchNet, Value


def nin(net: TorchNet) -> None:
    """Build the ImageNet network of the Caffe model zoo."""
    x = net.image(3, 224, 224)
    x = _block(net, x, ("conv1", "cccp1", "cccp2"), (96, 96, 96), kernel=11, stride=4)
    x = net.max_pool("pool1", x, 3, 2, ceil=True)
    x = _block(net, x, ("conv2", "cccp3", "cccp4"), (256, 256, 256), kernel=5, pad=2)
    x = net.max_pool("pool2", x, 3, 2, ceil=True)
    x = _block(net, x, ("conv3", "cccp5", "cccp6"), (384, 384, 384), kernel=3, pad=1)
    x = net.dropout("drop", net.max_pool("pool3", x, 3, 2, ceil=True))
    x = _block(net, x, ("conv4-1024", "cccp7-1024", "cccp8-1024"), (1024, 1024, 1000), kernel=3, pad=1)
    net.loss("loss", net.global_pool("pool4", x))


def _block(
    net: TorchNet,
    x: Value,
    names: tuple[str, ...],
    filters: tuple[int, ...],
    kernel: int,
    stride: int = 1,
    pad: int = 0,
) -> Value:
    x = net.relu(f"relu_{names[0]}", net.conv(names[0], x, filters[0], kernel, stride, pad))
    for name, width in zip(names[1:], filters[1:], strict=True):
        x = net.relu(f"relu_{name}", net.conv(name, x, width, kernel=1))
    return x
