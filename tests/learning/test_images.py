"""Data sets of images are read from their files, and what is wrong with a file is told."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from clustersim.errors import InputError
from clustersim.learning.images import cifar10, idx, mnist
from tests.learning.image_files import idx as idx_bytes
from tests.learning.image_files import images, write_cifar, write_mnist


@pytest.mark.parametrize(("packed", "dotted"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_four_files_are_read_under_their_usual_names(tmp_path: Path, packed: bool, dotted: bool) -> None:
    train, test = mnist.read_folder(write_mnist(tmp_path, packed, dotted))
    pixels, classes = images(60)
    assert train.pixels.shape == (60, 1, 28, 28)
    assert np.array_equal(train.pixels[:, 0], pixels)
    assert np.array_equal(train.classes, classes)
    assert len(test.pixels) == len(test.classes) == 20


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("train-images-idx3-ubyte", b"", "is empty or truncated"),
        ("train-images-idx3-ubyte", b"not an IDX file", "this is no IDX file; expected .* 00000803"),
        ("train-images-idx3-ubyte", bytes([0, 0, 0x0D, 3]) + bytes(12), "an IDX file of floats"),
        ("train-images-idx3-ubyte", idx_bytes(np.zeros(60)), "of 1 dimensions; are images and labels exchanged"),
        ("train-images-idx3-ubyte", idx_bytes(np.zeros((60, 28, 28)))[:-1], "is truncated: it has 47,055 bytes"),
        ("train-images-idx3-ubyte", idx_bytes(np.zeros((60, 28, 28))) + b"x", "is longer than its header says"),
        ("train-images-idx3-ubyte", idx_bytes(np.zeros((60, 9, 9))), "at least 12 x 12 pixels .got 9 x 9"),
        ("train-labels-idx1-ubyte", idx_bytes(np.zeros(59)), "there are 59 labels, and 60 images"),
        ("train-labels-idx1-ubyte", idx_bytes(np.full(60, 200)), "from 0 to 99 .got 200"),
        ("train-images-idx3-ubyte", b"\0\0\x08\x03" + b"\xff" * 12, "is truncated"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    write_mnist(tmp_path)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        mnist.read_folder(tmp_path)
    assert caught.value.mistakes[0].file == str(tmp_path / name)


def test_a_truncated_gzip_and_one_that_unpacks_to_too_much_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mnist(tmp_path, packed=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="gzip data ends too early"):
        mnist.read_folder(tmp_path)
    monkeypatch.setattr(idx, "_MOST_BYTES", 1 << 20)
    path.write_bytes(gzip.compress(bytes(4 << 20)))
    with pytest.raises(InputError, match="too large; at most 1 MB, unpacked"):
        mnist.read_folder(tmp_path)


@pytest.mark.parametrize("missing", ["train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"])
def test_a_missing_file_is_told_with_its_name(tmp_path: Path, missing: str) -> None:
    write_mnist(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(InputError, match=f"no file {missing} or {missing}.gz; nothing is downloaded"):
        mnist.find_files(tmp_path)


def test_the_binary_version_of_cifar_is_read(tmp_path: Path) -> None:
    train, test = cifar10.read_folder(write_cifar(tmp_path))
    assert train.pixels.shape == (20, 3, 32, 32)
    assert test.pixels.shape == (4, 3, 32, 32)
    first = np.frombuffer((tmp_path / "data_batch_1.bin").read_bytes(), np.uint8)
    assert train.classes[0] == first[0]
    assert np.array_equal(train.pixels[0].ravel(), first[1:3073])


def test_pickles_of_cifar_are_refused_in_favour_of_the_binary_version(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError, match=r"are pickles: reading them could run code. Get cifar-10-binary.tar.gz"):
        cifar10.read_folder(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"), [(bytes(3072), "a multiple of 3,073 bytes"), (b"", "multiple"), (b"\x0b" * 3073, "got 11")]
)
def test_a_wrong_file_of_cifar_is_told(tmp_path: Path, data: bytes, message: str) -> None:
    write_cifar(tmp_path)
    (tmp_path / "data_batch_2.bin").write_bytes(data)
    with pytest.raises(InputError, match=message):
        cifar10.read_folder(tmp_path)
