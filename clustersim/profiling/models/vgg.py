"""VGG: blocks of 3x3 convolutions with a pooling behind each."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.profiling.models.alexnet import classifier
from clustersim.profiling.net import TorchNet


def vgg(*blocks: int) -> Callable[[TorchNet], None]:
    """Return a builder of a VGG with these numbers of convolutions in each block."""

    def write(net: TorchNet) -> None:
        x = net.image(3, 224, 224)
        for block, num_convolutions in enumerate(blocks, start=1):
            for number in range(1, num_convolutions + 1):
                x = net.conv(f"conv{block}_{number}", x, min(512, 32 * 2**block), kernel=3, pad=1)
                x = net.relu(f"relu{block}_{number}", x)
            x = net.max_pool(f"pool{block}", x, 2, 2)
        classifier(net, x)

    return write
