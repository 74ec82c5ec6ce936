"""The model and the data of the task `mnist1d`."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import torch
from mnist1d.data import get_dataset_args, make_dataset

from clustersim.learning.tasks.mnist1d import Mnist1d
from clustersim.learning.training.data import Data
from clustersim.learning.training.flat_model import FlatModel
from clustersim.learning.training.networks import drawn, perceptron, signal_cnn

_CLASSES, _LENGTH = 10, 40


def mnist1d_trainee(task: Mnist1d, seed: int) -> FlatModel:
    """Return a network, drawn for a seed, on MNIST-1D."""
    with drawn(seed):
        if task.model == "cnn":
            return FlatModel(signal_cnn(_CLASSES), *signals())
        return FlatModel(perceptron(_LENGTH, task.hidden, _CLASSES), *signals().as_rows())


@cache
def signals() -> Data:
    """Return the signals [num_samples, 1, 40] that the package makes with its own seed; nothing is downloaded.

    The package draws from the random numbers that all of Python and numpy share; they are put back.
    """
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        made = make_dataset(get_dataset_args())
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
    inputs, test_inputs = (torch.tensor(made[key], dtype=torch.float32).unsqueeze(1) for key in ("x", "x_test"))
    return Data(inputs, torch.tensor(made["y"]), test_inputs, torch.tensor(made["y_test"]))
