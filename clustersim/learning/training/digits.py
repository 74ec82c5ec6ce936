"""The model and the data of the task `digits`."""

from __future__ import annotations

from functools import cache

import torch
from sklearn.datasets import load_digits

from clustersim.learning.tasks.digits import Digits
from clustersim.learning.training.data import Data
from clustersim.learning.training.flat_model import FlatModel
from clustersim.learning.training.networks import drawn, perceptron, small_cnn

_EVERY = 5
"""Each fifth digit is evaluated, not trained on."""
_CLASSES = 10


def digits_trainee(task: Digits, seed: int) -> FlatModel:
    """Return a network, drawn for a seed, on scikit-learn's digits."""
    with drawn(seed):
        if task.model == "cnn":
            return FlatModel(small_cnn(_CLASSES), *digits())
        return FlatModel(perceptron(64, task.hidden, _CLASSES), *digits().as_rows())


@cache
def digits() -> Data:
    """Return the digits as images [num_samples, 1, 8, 8] of numbers from -0.5 to 0.5."""
    pixels, classes = load_digits(return_X_y=True)
    images, targets = torch.tensor(pixels / 16 - 0.5, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(classes)
    is_test = torch.arange(len(images)) % _EVERY == 0
    return Data(images[~is_test], targets[~is_test], images[is_test], targets[is_test])
