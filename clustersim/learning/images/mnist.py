"""The four files of MNIST, and of data sets in its format such as Fashion-MNIST."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.learning.images import Images, ImageSets
from clustersim.learning.images.idx import read_idx

_LEAST_SIDE = 12
"""Pixels of the smallest side that LeNet-5 takes."""
_MOST_CLASSES = 100


def find_files(folder: Path) -> dict[str, Path]:
    """Return the files by their usual names, such as `train-images`; raise InputError if one is missing."""
    return {
        f"{part}-{what}": _found(folder, f"{part}-{what}", num)
        for part in ("train", "t10k")
        for what, num in (("images", 3), ("labels", 1))
    }


def read_folder(folder: Path) -> ImageSets:
    """Return the images of a folder; raise InputError if a file is missing or wrong."""
    files = find_files(folder)
    return ImageSets(*(_part(files[f"{part}-images"], files[f"{part}-labels"]) for part in ("train", "t10k")))


def _found(folder: Path, stem: str, num_dimensions: int) -> Path:
    names = [f"{stem}{sep}idx{num_dimensions}-ubyte{end}" for end in ("", ".gz") for sep in ("-", ".")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(
        f"the folder '{folder}' has no file {names[0]} or {names[2]}; nothing is downloaded",
        got=str(folder),
        allowed=f"a folder with {names[0]} or {names[2]}",
    )


def _part(images: Path, labels: Path) -> Images:
    pixels, classes = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(classes) or not len(pixels):
        message = f"there are {len(classes):,} labels, and {len(pixels):,} images in {images.name}"
        raise InputError(Mistake(message, file=str(labels), got=f"{len(classes):,}", allowed="a label for each image"))
    if min(pixels.shape[1:]) < _LEAST_SIDE:
        got = f"{pixels.shape[1]} x {pixels.shape[2]}"
        message = f"images have at least {_LEAST_SIDE} x {_LEAST_SIDE} pixels (got {got})"
        raise InputError(Mistake(message, file=str(images), got=got, allowed=f"at least {_LEAST_SIDE} x {_LEAST_SIDE}"))
    if classes.max() >= _MOST_CLASSES:
        message = f"classes are numbered from 0 to {_MOST_CLASSES - 1} (got {classes.max()})"
        raise InputError(Mistake(message, file=str(labels), got=str(classes.max()), allowed=f"below {_MOST_CLASSES}"))
    return Images(pixels[:, np.newaxis], classes.astype(np.int64))
