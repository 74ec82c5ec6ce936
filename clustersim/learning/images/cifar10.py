"""The files of CIFAR-10's binary version: a byte with the class and 3 x 32 x 32 with the pixels, for each image."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.learning.images import Images, ImageSets
from clustersim.reading import read_packed

_TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]
_TEST = "test_batch.bin"
_SHAPE = (3, 32, 32)
_ROW = 1 + 3 * 32 * 32
_CLASSES = 10
_MOST_BYTES = 64 << 20


def find_files(folder: Path) -> list[Path]:
    """Return the files to train on, and the one to evaluate; raise InputError if one is missing."""
    for name in (*_TRAIN, _TEST):
        if not (folder / name).is_file():
            is_python = (folder / name.removesuffix(".bin")).is_file()
            why = (
                "its files are those of the version for Python, which are pickles: reading them could run code. Get "
                "cifar-10-binary.tar.gz in place of it"
                if is_python
                else "nothing is downloaded"
            )
            raise InputError(
                f"the folder '{folder}' has no file {name}; {why}",
                got=str(folder),
                allowed="a folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin",
            )
    return [folder / name for name in (*_TRAIN, _TEST)]


def read_folder(folder: Path) -> ImageSets:
    """Return the images of a folder; raise InputError if a file is missing or wrong."""
    *train, test = [_rows(path) for path in find_files(folder)]
    return ImageSets(_images(np.concatenate(train)), _images(test))


def _rows(path: Path) -> np.ndarray:
    """Return the rows of a file [num_images, 3073]."""
    data = read_packed(path, _MOST_BYTES)
    if not data or len(data) % _ROW:
        message = f"expected a multiple of {_ROW:,} bytes, so many for each image (got {len(data):,}); get it again"
        raise InputError(Mistake(message, file=str(path), got=f"{len(data):,}", allowed=f"a multiple of {_ROW:,}"))
    rows = np.frombuffer(data, np.uint8).reshape(-1, _ROW)
    if rows[:, 0].max() >= _CLASSES:
        message = f"classes are numbered from 0 to {_CLASSES - 1} (got {rows[:, 0].max()}); is it CIFAR-10?"
        raise InputError(Mistake(message, file=str(path), got=str(rows[:, 0].max()), allowed=f"below {_CLASSES}"))
    return rows


def _images(rows: np.ndarray) -> Images:
    return Images(rows[:, 1:].reshape(-1, *_SHAPE), rows[:, 0].astype(np.int64))
