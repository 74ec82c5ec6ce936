"""The model and the data of the task `digits`."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

from clustersim.learning.training.flat_model import FlatModel

_EVERY = 5
"""Each fifth digit is evaluated, not trained on."""


def digits_trainee(hidden: int, seed: int) -> FlatModel:
    """Return a perceptron with one hidden layer, drawn for a seed, on scikit-learn's digits."""
    pixels, classes = load_digits(return_X_y=True)
    inputs, targets = torch.tensor(pixels / 16 - 0.5, dtype=torch.float32), torch.tensor(classes)
    is_test = torch.arange(len(inputs)) % _EVERY == 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    return FlatModel(module, inputs[~is_test], targets[~is_test], inputs[is_test], targets[is_test])
