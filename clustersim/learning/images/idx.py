"""IDX files: arrays of bytes with their shape, plain or gzip (http://yann.lecun.com/exdb/mnist)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.reading import read_packed

_MOST_BYTES = 256 << 20
_BYTES = 0x08
_NAMES = {0x09: "signed bytes", 0x0B: "16-bit numbers", 0x0C: "32-bit numbers", 0x0D: "floats", 0x0E: "doubles"}


def read_idx(path: Path, num_dimensions: int) -> np.ndarray:
    """Return the array of an IDX file of bytes with so many dimensions; raise InputError for another file."""
    data = read_packed(path, _MOST_BYTES)
    begin = 4 + 4 * num_dimensions
    magic = bytes([0, 0, _BYTES, num_dimensions])
    if data[:4] != magic:
        raise _wrong(path, f"{_what(data[:4])}; expected an IDX file with the magic number {magic.hex()}", data[:4])
    shape = [int.from_bytes(data[at : at + 4], "big") for at in range(4, begin, 4)]
    expected = begin + math.prod(shape)
    if len(data) != expected:
        state = "is truncated" if len(data) < expected else "is longer than its header says"
        raise _wrong(
            path, f"{state}: it has {len(data):,} bytes, and its header says {expected:,}; get the file again", data[:4]
        )
    return np.frombuffer(data, np.uint8, offset=begin).reshape(shape)


def _what(magic: bytes) -> str:
    if len(magic) < 4:
        return "the file is empty or truncated"
    if magic[:2] == b"\0\0" and magic[2] in _NAMES:
        return f"this is an IDX file of {_NAMES[magic[2]]}"
    if magic[:2] == b"\0\0" and magic[2] == _BYTES:
        return f"this is an IDX file of {magic[3]} dimensions; are images and labels exchanged?"
    return "this is no IDX file"


def _wrong(path: Path, message: str, magic: bytes) -> InputError:
    return InputError(Mistake(message, file=str(path), got=magic.hex() or "nothing", allowed="an IDX file of bytes"))
