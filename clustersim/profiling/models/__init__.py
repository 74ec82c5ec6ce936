"""Models that can be profiled, built in torch; layer names are those of `clustersim.model.catalogue`.

A test compares the two: names, parameters and FLOP of every layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from clustersim.profiling.models.alexnet import alexnet, caffenet, two_towers
from clustersim.profiling.models.googlenet import googlenet
from clustersim.profiling.models.gpt import any_gpt, gpt2
from clustersim.profiling.models.inception import inception_v3
from clustersim.profiling.models.lstm import lstm_lm
from clustersim.profiling.models.nin import nin
from clustersim.profiling.models.resnet import resnet
from clustersim.profiling.models.squeezenet import squeezenet
from clustersim.profiling.models.vgg import vgg
from clustersim.profiling.net import NetGraph, TorchNet

__all__ = ["MODELS", "build_model", "canonical", "model_writer"]

MODELS: dict[str, Callable[[TorchNet], None]] = {
    "alexnet": alexnet,
    "alexnet-caffe": two_towers,
    "caffenet": caffenet,
    "googlenet": googlenet(auxiliary=False),
    "googlenet-aux": googlenet(auxiliary=True),
    "gpt2-small": gpt2(layers=12, features=768, heads=12),
    "gpt2-medium": gpt2(layers=24, features=1024, heads=16),
    "gpt2-large": gpt2(layers=36, features=1280, heads=20),
    "gpt2-xl": gpt2(layers=48, features=1600, heads=25),
    "inception-v3": inception_v3(auxiliary=False),
    "inception-v3-aux": inception_v3(auxiliary=True),
    "lstm-lm": lstm_lm(hidden=1500, dropout=0.65),
    "lstm-lm-medium": lstm_lm(hidden=650, dropout=0.5),
    "nin": nin,
    "resnet18": resnet(18),
    "resnet34": resnet(34),
    "resnet50": resnet(50),
    "resnet101": resnet(101),
    "resnet152": resnet(152),
    "squeezenet-1.0": squeezenet,
    "vgg11": vgg(1, 1, 2, 2, 2),
    "vgg13": vgg(2, 2, 2, 2, 2),
    "vgg16": vgg(2, 2, 3, 3, 3),
    "vgg19": vgg(2, 2, 4, 4, 4),
}


def canonical(name: str) -> str:
    """Return the table's spelling of a name: a hyphen before a digit makes no difference, as in the catalogue.

    >>> canonical("resnet-50")
    'resnet50'
    """
    spelt = {_without_hyphens(known): known for known in MODELS}
    return spelt.get(_without_hyphens(name), name)


def _without_hyphens(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])-(?=\d)", "", name)


def model_writer(name: str) -> Callable[[TorchNet], None] | None:
    """Return the function that builds a model of the table, or a GPT whose name gives its sizes; otherwise None."""
    return MODELS.get(name) or any_gpt(name)


def build_model(name: str) -> NetGraph:
    """Return a model of the table (`model_writer`), on torch's meta device."""
    write = model_writer(name)
    assert write is not None, f"there is no model {name}"
    net = TorchNet()
    write(net)
    return net.graph()
