"""The model and the data of tasks on images from a folder: `mnist`, `fashion-mnist` and `cifar-10`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from clustersim.learning.images import Images
from clustersim.learning.tasks.image_folder import ImageFolder
from clustersim.learning.training.data import Data
from clustersim.learning.training.flat_model import FlatModel
from clustersim.learning.training.networks import drawn, lenet5, perceptron


def images_trainee(task: ImageFolder, seed: int) -> FlatModel:
    """Return a network, drawn for a seed, on the images of a folder."""
    keys = {"folder": task.folder, "samples": task.samples, "test_samples": task.test_samples}
    data, num_classes = images(type(task)(**keys))  # the same data for every network
    _, channels, height, width = data.inputs.shape
    with drawn(seed):
        if task.model == "cnn":
            return FlatModel(lenet5(channels, height, width, num_classes), *data)
        return FlatModel(perceptron(channels * height * width, task.hidden, num_classes), *data.as_rows())


@lru_cache(maxsize=2)
def images(task: ImageFolder) -> tuple[Data, int]:
    """Return images [num_samples, channels, height, width] of mean 0 and variance 1 in each channel, and their classes.

    All are numbers of 32 bits: the images of MNIST take 190 MB, those of CIFAR-10 640 MB.
    """
    whole = task.images()
    train, test = _first(whole.train, task.samples), _first(whole.test, task.test_samples)
    mean = train.pixels.mean((0, 2, 3), dtype=np.float64)
    scale = np.maximum(train.pixels.std((0, 2, 3), dtype=np.float64), 1.0)
    num_classes = 1 + int(max(train.classes.max(), test.classes.max()))
    inputs, test_inputs = (_scaled(part.pixels, mean, scale) for part in (train, test))
    return Data(inputs, torch.tensor(train.classes), test_inputs, torch.tensor(test.classes)), num_classes


def _first(part: Images, num_images: int | None) -> Images:
    return Images(part.pixels[:num_images], part.classes[:num_images])


def _scaled(pixels: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> Tensor:
    shift, factor = (torch.tensor(each, dtype=torch.float32).view(1, -1, 1, 1) for each in (mean, scale))
    return torch.tensor(pixels, dtype=torch.float32).sub_(shift).div_(factor)
