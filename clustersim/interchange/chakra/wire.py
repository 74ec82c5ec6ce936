"""Protocol buffers wire format: the part that Chakra's messages need.

Format: "Protocol Buffers Documentation: Encoding" (protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
_MOST_BYTES = 10  # of a varint: 64 bits, seven a byte


class Field(NamedTuple):
    """One field of a message: its number, its encoding, and an integer, or the raw bytes."""

    number: int
    kind: int
    value: int | bytes


def varint(value: int) -> bytes:
    """Return an integer, seven bits a byte; a negative one as its two's complement in 64 bits.

    >>> varint(300).hex(), len(varint(-1))
    ('ac02', 10)
    """
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """Return a field that is an integer or a boolean."""
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, value: bytes | str) -> bytes:
    """Return a field that is a text, bytes or another message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | LENGTH) + varint(len(data)) + data


def double_field(number: int, value: float) -> bytes:
    """Return a field that is a 64-bit float."""
    return varint(number << 3 | FIXED64) + struct.pack("<d", value)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned integer and its end; raise ValueError where the bytes end before."""
    value = 0
    for place in range(_MOST_BYTES):
        if at + place >= len(data):
            raise ValueError(f"it ends within a number, at byte {len(data)}")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & (1 << 64) - 1, at + place + 1
    raise ValueError(f"there is a number of more than 64 bits at byte {at}")


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message; raise ValueError where it is not a message."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
            yield Field(number, kind, value)
            continue
        if kind not in (*_SIZES, LENGTH) or not number:
            raise ValueError(f"field {number} is of the unknown kind {kind}")
        size, at = read_varint(data, at) if kind == LENGTH else (_SIZES[kind], at)
        if at + size > len(data):
            raise ValueError(f"field {number} is truncated")
        yield Field(number, kind, data[at : at + size])
        at += size


def messages(data: bytes) -> Iterator[bytes]:
    """Yield length-delimited messages in sequence."""
    at = 0
    while at < len(data):
        size, at = read_varint(data, at)
        if at + size > len(data):
            raise ValueError(f"a message of {size} bytes is truncated at byte {len(data)}")
        yield data[at : at + size]
        at += size


def signed(value: int, num_bits: int = 64) -> int:
    """Return an integer from its two's complement encoding.

    >>> signed(2**64 - 1), signed(5)
    (-1, 5)
    """
    value &= (1 << num_bits) - 1
    return value - (1 << num_bits) if value >> (num_bits - 1) else value


def zigzag(value: int) -> int:
    """Return an integer from its zigzag encoding: 0, -1, 1, -2.

    >>> [zigzag(value) for value in range(4)]
    [0, -1, 1, -2]
    """
    return value >> 1 ^ -(value & 1)
