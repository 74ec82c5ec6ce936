"""Reads data sets of images from the files in which they are published, without torch. Nothing is downloaded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Images(NamedTuple):
    """Images [num_images, channels, height, width] of bytes, and their classes [num_images]."""

    pixels: np.ndarray
    classes: np.ndarray


class ImageSets(NamedTuple):
    """The images to train on, and those to evaluate."""

    train: Images
    test: Images


__all__ = ["ImageSets", "Images"]
