"""Small networks, with weights that depend on a seed alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn


@contextlib.contextmanager
def drawn(seed: int) -> Iterator[None]:
    """Seed torch's random numbers for what is made inside; outside, they go on as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def perceptron(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """Return a perceptron with one hidden layer, for rows [inputs]."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def small_cnn(outputs: int) -> nn.Module:
    """Return two convolutions and a linear layer, for images [1, 8, 8]."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 2 * 2, outputs),
    )  # fmt: skip


def signal_cnn(outputs: int) -> nn.Module:
    """Return three convolutions and a linear layer, for signals [1, 40]; as in the paper on MNIST-1D."""
    channels = 25
    layers: list[nn.Module] = []
    for number, kernel in enumerate((5, 3, 3)):
        layers += [nn.Conv1d(channels if number else 1, channels, kernel, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * 5, outputs))


def lenet5(channels: int, height: int, width: int, outputs: int) -> nn.Module:
    """Return LeNet-5 with ReLU and maximum pooling, for images [channels, height, width] of 12 pixels or more.

    Source: LeCun et al., Gradient-based learning applied to document recognition, 1998; its first layer pads 28 x 28
    images to 32 x 32.
    """
    features = 16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(features, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs),
    )  # fmt: skip
