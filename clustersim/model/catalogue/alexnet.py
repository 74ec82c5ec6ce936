"""AlexNet: the two-tower network of 2012 in Caffe's version, and the single tower of 2014; OverFeat."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model


def alexnet_caffe() -> Model:
    """Return AlexNet of two towers (Krizhevsky et al., 2012), Caffe's bvlc_alexnet: normalise, then pool."""
    net = Builder("alexnet-caffe", "AlexNet, two towers (Krizhevsky et al., 2012)", source="Caffe, models/bvlc_alexnet")
    return two_towers(net, groups=2, norm_first=True)


def alexnet_one_group() -> Model:
    """Return AlexNet of 2012 with merged towers, as in PaddlePaddle's benchmark: one group in every convolution."""
    source = "PaddlePaddle, benchmark/paddle/image/alexnet.py (commit 63de3ec2)"
    net = Builder("alexnet-one-group", "AlexNet of 2012, towers joined", source=source)
    return two_towers(net, groups=1, norm_first=True)


def caffenet() -> Model:
    """Return Caffe's reference network: AlexNet that pools first and normalises the smaller feature maps."""
    net = Builder("caffenet", "CaffeNet, AlexNet with pooling first", source="Caffe, models/bvlc_reference_caffenet")
    return two_towers(net, groups=2, norm_first=False)


def alexnet() -> Model:
    """Return the single tower of "One weird trick" (Krizhevsky, 2014): no LRN, as in torchvision."""
    net = Builder("alexnet", "AlexNet, single tower (Krizhevsky, 2014)", source="arXiv:1404.5997; torchvision alexnet")
    return one_tower(net, fourth=256)


def alexnet_tensorflow() -> Model:
    """Return the single tower of TensorFlow's benchmarks, with a fourth convolution as wide as the third."""
    source = "tensorflow/benchmarks, scripts/tf_cnn_benchmarks/alexnet_model.py (commit 2726f3da)"
    net = Builder("alexnet-tensorflow", "AlexNet, single tower, as TensorFlow's benchmarks have it", source=source)
    return one_tower(net, fourth=384)


def one_tower(net: Builder, fourth: int) -> Model:
    """Return the network of 2014, with `fourth` filters in its fourth convolution."""
    x = net.input(3, 224, 224)
    x = _conv(net, "1", x, 64, kernel=11, stride=4, pad=2)
    x = net.pool("pool1", x, 3, 2)
    x = _conv(net, "2", x, 192, kernel=5, pad=2)
    x = net.pool("pool2", x, 3, 2)
    x = _conv(net, "3", x, 384, kernel=3, pad=1)
    x = _conv(net, "4", x, fourth, kernel=3, pad=1)
    x = _conv(net, "5", x, 256, kernel=3, pad=1)
    x = net.pool("pool5", x, 3, 2)
    return classifier(net, x)


def overfeat() -> Model:
    """Return the fast network of OverFeat (Sermanet et al., 2014), in the version of TensorFlow's benchmarks."""
    source = "tensorflow/benchmarks, scripts/tf_cnn_benchmarks/overfeat_model.py"
    net = Builder("overfeat", "OverFeat, the fast one (Sermanet et al., 2014)", source=source)
    x = net.input(3, 231, 231)
    x = net.pool("pool1", _conv(net, "1", x, 96, kernel=11, stride=4), 2, 2)
    x = net.pool("pool2", _conv(net, "2", x, 256, kernel=5), 2, 2)
    x = _conv(net, "3", x, 512, kernel=3, pad=1)
    x = _conv(net, "4", x, 1024, kernel=3, pad=1)
    x = net.pool("pool5", _conv(net, "5", x, 1024, kernel=3, pad=1), 2, 2)
    x = net.relu("relu6", net.fully_connected("fc6", x, 3072))
    x = net.relu("relu7", net.fully_connected("fc7", x, 4096))
    net.loss("loss", net.fully_connected("fc8", x, 1000))
    return net.model()


def two_towers(net: Builder, groups: int, norm_first: bool) -> Model:
    """Return the network of 2012; with `groups=1` the towers are connected and it has 62.4 M parameters."""

    def shrink(number: str, x: Tensor) -> Tensor:
        norm, pool = f"norm{number}", f"pool{number}"
        if norm_first:
            return net.pool(pool, net.lrn(norm, x), 3, 2, ceil=True)
        return net.lrn(norm, net.pool(pool, x, 3, 2, ceil=True))

    x = net.input(3, 227, 227)
    x = shrink("1", _conv(net, "1", x, 96, kernel=11, stride=4))
    x = shrink("2", _conv(net, "2", x, 256, kernel=5, pad=2, groups=groups))
    x = _conv(net, "3", x, 384, kernel=3, pad=1)
    x = _conv(net, "4", x, 384, kernel=3, pad=1, groups=groups)
    x = _conv(net, "5", x, 256, kernel=3, pad=1, groups=groups)
    x = net.pool("pool5", x, 3, 2, ceil=True)
    return classifier(net, x)


def classifier(net: Builder, x: Tensor) -> Model:
    """End with three fully connected layers, 4096, 4096 and 1000 wide, and return the model (VGG has the same end)."""
    for number in ("6", "7"):
        x = net.fully_connected(f"fc{number}", x, 4096)
        x = net.relu(f"relu{number}", x)
        x = net.dropout(f"drop{number}", x)
    x = net.fully_connected("fc8", x, 1000)
    net.loss("loss", x)
    return net.model()


def _conv(
    net: Builder, number: str, x: Tensor, filters: int, kernel: int, stride: int = 1, pad: int = 0, groups: int = 1
) -> Tensor:
    x = net.conv(f"conv{number}", x, filters, kernel, stride, pad, groups)
    return net.relu(f"relu{number}", x)
