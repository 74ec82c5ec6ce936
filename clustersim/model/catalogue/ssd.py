"""SSD300 (Liu et al., 2016) on the first four stages of a ResNet, in the version of NVIDIA and MLPerf."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.catalogue.resnet import trunk
from clustersim.model.layer import Model

_CLASSES = 81
_BOXES = (4, 6, 6, 6, 4, 4)  # at each place of each map
_EXTRA = ((256, 2, 1), (256, 2, 1), (128, 2, 1), (128, 1, 0), (128, 1, 0))  # channels in between, stride, pad
_MAPS = {34: (512, 512, 256, 256, 256), 50: (512, 512, 256, 256, 256)}
_SOURCE = "arXiv:1512.02325; NVIDIA, DeepLearningExamples, PyTorch/Detection/SSD/src/model.py"


def ssd(depth: int) -> Callable[[], Model]:
    """Return a builder of SSD on a ResNet of `depth` layers: 8,732 boxes in an image of 300 x 300.

    The last stage of the ResNet is removed, and the one before keeps 38 x 38 positions. Selecting the hardest negatives
    for the loss is left out.
    """

    def build() -> Model:
        net = Builder(f"ssd300-resnet{depth}", f"SSD300, ResNet-{depth}", source=_SOURCE)
        x = trunk(net, depth, net.input(3, 300, 300), strides=(1, 2, 1))
        maps = [x]
        for number, (channels, (middle, stride, pad)) in enumerate(zip(_MAPS[depth], _EXTRA, strict=True)):
            x = _conv(net, f"additional_blocks.{number}.0", x, middle, kernel=1)
            x = _conv(net, f"additional_blocks.{number}.1", x, channels, kernel=3, stride=stride, pad=pad)
            maps.append(x)
        boxes = 0
        for number, (each, x) in enumerate(zip(_BOXES, maps, strict=True)):
            net.conv(f"loc.{number}", x, 4 * each, kernel=3, pad=1)
            net.conv(f"conf.{number}", x, _CLASSES * each, kernel=3, pad=1)
            boxes += each * x.positions
        net.loss("loss", Tensor(4 + _CLASSES, boxes))
        return net.model()

    return build


def _conv(net: Builder, name: str, x: Tensor, filters: int, kernel: int, stride: int = 1, pad: int = 0) -> Tensor:
    x = net.conv(f"{name}.conv", x, filters, kernel, stride, pad, bias=False)
    return net.relu(f"{name}.relu", net.batch_norm(f"{name}.bn", x))
