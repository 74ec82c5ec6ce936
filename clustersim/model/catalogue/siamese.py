"""The Siamese network of Koch, Zemel and Salakhutdinov (2015) for pairs of handwritten characters."""

from __future__ import annotations

from dataclasses import replace

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Layer, Model

_SOURCE = "Siamese neural networks for one-shot image recognition (ICML deep learning workshop, 2015), figure 4"


def siamese_omniglot() -> Model:
    """Return both towers, one for each image of 105 x 105, and the distance of their outputs.

    The second tower uses the weights of the first, which are counted once: 38,951,745 parameters in all. Sigmoids take
    the time of a ReLU.
    """
    net = Builder("siamese-omniglot", "Siamese network, two towers with shared weights", "pair", _SOURCE)
    with net.branch("left"):
        left = _tower(net, "left")
    first = len(net.layers)
    with net.branch("right"):
        right = _tower(net, "right")
    net.layers[first:] = [_with_weights_of_left(layer) for layer in net.layers[first:]]
    net.loss("loss", net.fully_connected("same", net.add("distance", left, right), 1))
    return net.model()


def _tower(net: Builder, side: str) -> Tensor:
    x = net.input(1, 105, 105)
    for number, (filters, kernel) in enumerate(((64, 10), (128, 7), (128, 4), (256, 4)), 1):
        x = net.relu(f"{side}.relu{number}", net.conv(f"{side}.conv{number}", x, filters, kernel))
        if number < 4:
            x = net.pool(f"{side}.pool{number}", x, 2, 2)
    return net.relu(f"{side}.sigmoid", net.fully_connected(f"{side}.features", x, 4096))


def _with_weights_of_left(layer: Layer) -> Layer:
    if not layer.num_parameters:
        return layer
    return replace(layer, num_parameters=0, weights_of=layer.name.replace("right.", "left."))
