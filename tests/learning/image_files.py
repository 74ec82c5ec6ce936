"""Tiny data sets of images in the files of MNIST and of CIFAR-10."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

PARTS = ("train", "t10k")


def idx(array: np.ndarray) -> bytes:
    """Return an IDX file of bytes."""
    shape = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.astype(np.uint8).tobytes()


def images(number: int, side: int = 28, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images [number, side, side] whose class is the place of a bright row, and their classes."""
    rng = np.random.default_rng(seed)
    classes = np.arange(number) % 10
    pixels = rng.integers(0, 100, (number, side, side))
    pixels[np.arange(number), classes + 1] = 255
    return pixels, classes


def write_mnist(folder: Path, packed: bool = False, dotted: bool = False, numbers: tuple[int, int] = (60, 20)) -> Path:
    """Write the four files of a small MNIST to a folder, and return it."""
    folder.mkdir(exist_ok=True)
    for seed, (part, number) in enumerate(zip(PARTS, numbers, strict=True)):
        pixels, classes = images(number, seed=seed)
        for what, array in (("images", pixels), ("labels", classes)):
            name = f"{part}-{what}{'.' if dotted else '-'}idx{array.ndim}-ubyte"
            data = idx(array)
            (folder / f"{name}.gz").write_bytes(gzip.compress(data)) if packed else (folder / name).write_bytes(data)
    return folder


def write_cifar(folder: Path, each: int = 4) -> Path:
    """Write the six files of a small CIFAR-10 to a folder, and return it."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        rows = rng.integers(0, 256, (each, 3073))
        rows[:, 0] %= 10
        (folder / f"{name}.bin").write_bytes(rows.astype(np.uint8).tobytes())
    return folder
