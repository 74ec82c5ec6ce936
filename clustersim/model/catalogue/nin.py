"""Network in network (Lin et al., 2014), the ImageNet network of the Caffe model zoo."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model


def nin() -> Model:
    """Return NiN: four convolutions, each with two 1x1 convolutions behind it, and no fully connected layer."""
    net = Builder("nin", "Network in network (Lin et al., 2014)", source="Caffe model zoo, NIN-imagenet")
    x = net.input(3, 224, 224)
    x = _block(net, x, ("conv1", "cccp1", "cccp2"), (96, 96, 96), kernel=11, stride=4)
    x = net.pool("pool1", x, 3, 2, ceil=True)
    x = _block(net, x, ("conv2", "cccp3", "cccp4"), (256, 256, 256), kernel=5, pad=2)
    x = net.pool("pool2", x, 3, 2, ceil=True)
    x = _block(net, x, ("conv3", "cccp5", "cccp6"), (384, 384, 384), kernel=3, pad=1)
    x = net.dropout("drop", net.pool("pool3", x, 3, 2, ceil=True))
    x = _block(net, x, ("conv4-1024", "cccp7-1024", "cccp8-1024"), (1024, 1024, 1000), kernel=3, pad=1)
    x = net.global_pool("pool4", x)
    net.loss("loss", x)
    return net.model()


def _block(
    net: Builder,
    x: Tensor,
    names: tuple[str, str, str],
    filters: tuple[int, int, int],
    kernel: int,
    stride: int = 1,
    pad: int = 0,
) -> Tensor:
    windows = ((kernel, stride, pad), (1, 1, 0), (1, 1, 0))
    for name, num_filters, window in zip(names, filters, windows, strict=True):
        x = net.relu(f"relu_{name}", net.conv(name, x, num_filters, *window))
    return x
