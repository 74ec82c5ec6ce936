"""VGG (Simonyan and Zisserman, 2015): 3x3 convolutions, five poolings, three fully connected layers."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder
from clustersim.model.catalogue.alexnet import classifier
from clustersim.model.layer import Model

_FILTERS = (64, 128, 256, 512, 512)
_CONVOLUTIONS = {"A": (1, 1, 2, 2, 2), "B": (2, 2, 2, 2, 2), "D": (2, 2, 3, 3, 3), "E": (2, 2, 4, 4, 4)}


def vgg(configuration: str) -> Callable[[], Model]:
    """Return a builder of a configuration of the paper's table 1: A (11 layers), B (13), D (16) or E (19)."""

    def build() -> Model:
        blocks = _CONVOLUTIONS[configuration]
        depth = sum(blocks) + 3
        net = Builder(f"vgg{depth}", f"VGG-{depth}, configuration {configuration}", source="arXiv:1409.1556, table 1")
        x = net.input(3, 224, 224)
        for block, (num_convolutions, filters) in enumerate(zip(blocks, _FILTERS, strict=True), start=1):
            for number in range(1, num_convolutions + 1):
                x = net.conv(f"conv{block}_{number}", x, filters, kernel=3, pad=1)
                x = net.relu(f"relu{block}_{number}", x)
            x = net.pool(f"pool{block}", x, 2, 2)
        return classifier(net, x)

    return build
