"""Encoding and decoding of a trace node as a message of Chakra's schema.

Attributes have the types that both of ASTRA-sim's readers accept: `comm_size`, `comm_type` and `num_ops` are int64,
`comm_src`, `comm_dst` and `comm_tag` int32, `tensor_size` is uint64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from clustersim.interchange.chakra.wire import (
    LENGTH,
    VARINT,
    Field,
    bytes_field,
    double_field,
    fields,
    number_field,
    read_varint,
    signed,
    varint,
    zigzag,
)

Value = float | int | bool | str

METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL = range(1, 8)
"""Chakra's NodeType."""

COLLECTIVES = ("all-reduce", "reduce", "all-gather", "gather", "scatter", "broadcast", "all-to-all", "reduce-scatter")
"""Chakra's CollectiveCommType from 0 on, by clustersim's names."""

REDUCE_SCATTER_BLOCK, BARRIER = 8, 9
VERSION = "0.0.4"
"""Version of the schema, as Chakra's own generators write it into the metadata."""

VERSIONS = (VERSION, "1.0.0")
"""Versions whose nodes are known: the schema's fields have been the same since 2024."""

_DOUBLE, _INT32, _INT64, _UINT64, _BOOL, _STRING, _BYTES = 3, 7, 9, 13, 27, 29, 31
_TYPES = {
    "is_cpu_op": _BOOL,
    "num_ops": _INT64,
    "tensor_size": _UINT64,
    "comm_type": _INT64,
    "comm_size": _INT64,
    "comm_src": _INT32,
    "comm_dst": _INT32,
    "comm_tag": _INT32,
    "pg_name": _STRING,
    "algorithm": _STRING,
    "seconds": _DOUBLE,
    "num_bytes": _DOUBLE,
    "root": _INT64,
}
_SIGNED, _ZIGZAG = {7: 32, 9: 64}, (15, 17)
_FLOATS = {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}


_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A node of a trace; `attributes` are those with one value, by name, and `lists` those with several.

    `inputs` are the values of its inputs as text.
    """

    number: int
    name: str
    kind: int
    data_deps: tuple[int, ...] = ()
    order_deps: tuple[int, ...] = ()
    micros: int = 0
    attributes: Mapping[str, Value] = field(default_factory=lambda: _NONE)
    lists: Mapping[str, tuple[Value, ...]] = field(default_factory=lambda: _NONE)
    inputs: str = ""


def metadata() -> bytes:
    """Return the first message of a trace."""
    return bytes_field(1, VERSION)


def framed(message: bytes) -> bytes:
    """Return a length-delimited message."""
    return varint(len(message)) + message


def encode(message: ProtoMessage) -> bytes:
    """Return a node as a message."""
    parts = [number_field(1, message.number), bytes_field(2, message.name), number_field(3, message.kind)]
    for number, deps in ((4, message.order_deps), (5, message.data_deps)):
        if deps:
            parts.append(bytes_field(number, b"".join(map(varint, deps))))
    if message.micros:
        parts.append(number_field(7, message.micros))
    return b"".join([*parts, encode_attributes(message.attributes)])


def encode_attributes(attributes: Mapping[str, Value]) -> bytes:
    """Return attributes as fields of a node; they may follow all other fields."""
    return b"".join(bytes_field(10, bytes_field(1, name) + _value(name, value)) for name, value in attributes.items())


def _value(name: str, value: Value) -> bytes:
    number = _TYPES[name]
    if number == _STRING:
        return bytes_field(number, str(value))
    return double_field(number, float(value)) if number == _DOUBLE else number_field(number, int(value))


def decode(data: bytes) -> ProtoMessage:
    """Return a message as a node; raise ValueError where it is not one."""
    numbers, name = {1: 0, 3: 0, 7: 0}, ""
    data_deps: list[int] = []
    order_deps: list[int] = []
    attributes: dict[str, Value] = {}
    lists: dict[str, tuple[Value, ...]] = {}
    inputs = ""
    for each in fields(data):
        if each.number in numbers and isinstance(each.value, int):
            numbers[each.number] = each.value
        elif each.number == 8 and isinstance(each.value, bytes):
            inputs = _text(each.value, 1)
        elif each.number == 2 and isinstance(each.value, bytes):
            name = each.value.decode()
        elif each.number in (4, 5):
            (order_deps if each.number == 4 else data_deps).extend(_integers(each))
        elif each.number == 10 and isinstance(each.value, bytes):
            name_of, value = _attribute(each.value)
            if isinstance(value, tuple):
                lists[name_of] = value
            elif value is not None:
                attributes[name_of] = value
    return ProtoMessage(
        numbers[1],
        name,
        numbers[3],
        tuple(data_deps),
        tuple(order_deps),
        numbers[7],
        attributes or _NONE,
        lists or _NONE,
        inputs,
    )


def decode_version(data: bytes) -> str | None:
    """Return the version of a trace's metadata, None if the message is none; raise ValueError where it is damaged."""
    found = list(fields(data))
    if any(each.number > 2 or each.kind != LENGTH for each in found):
        return None
    return _text(data, 1)


def _text(data: bytes, number: int) -> str:
    """Return the text of a field of a message, empty without one."""
    values = [each.value for each in fields(data) if each.number == number and isinstance(each.value, bytes)]
    return values[-1].decode() if values else ""


def _integers(each: Field) -> Iterator[int]:
    """Yield the integers of a packed field, or a single one."""
    if isinstance(each.value, int):
        yield each.value
        return
    at = 0
    while at < len(each.value):
        value, at = read_varint(each.value, at)
        yield value


def _attribute(data: bytes) -> tuple[str, Value | tuple[Value, ...] | None]:
    """Return the name and the value or values of an attribute; None for a kind of value that is not known."""
    name: str = ""
    value: Value | tuple[Value, ...] | None = None
    for each in fields(data):
        if each.number == 1 and isinstance(each.value, bytes):
            name = each.value.decode()
        elif each.number > 2 and each.number % 2:
            value = _decoded(each)
        elif each.number > 2 and isinstance(each.value, bytes):
            value = tuple(_values(each.number - 1, each.value))
    return name, value


def _values(number: int, data: bytes) -> Iterator[Value]:
    """Yield the values of a list whose elements have the kind of a field's number."""
    kind = LENGTH if number in (_STRING, _BYTES) else VARINT if number not in _FLOATS else None
    for each in fields(data):
        if each.number != 1:
            continue
        if kind is None and isinstance(each.value, bytes):
            size = struct.calcsize(_FLOATS[number])
            pieces = (each.value[at : at + size] for at in range(0, len(each.value), size))
            parts: list[Field] = [Field(number, each.kind, piece) for piece in pieces]
        elif kind == VARINT:
            parts = [Field(number, VARINT, value) for value in _integers(each)]
        else:
            parts = [Field(number, each.kind, each.value)]
        for part in parts:
            value = _decoded(part)
            if value is not None:
                yield value


def _decoded(each: Field) -> Value | None:
    if each.kind == VARINT and isinstance(each.value, int):
        if each.number == _BOOL:
            return bool(each.value)
        if each.number in _ZIGZAG:
            return zigzag(each.value)
        return signed(each.value, _SIGNED[each.number]) if each.number in _SIGNED else each.value
    if each.number == _STRING and each.kind == LENGTH and isinstance(each.value, bytes):
        return each.value.decode()
    if each.number in _FLOATS and isinstance(each.value, bytes):
        if len(each.value) != struct.calcsize(_FLOATS[each.number]):
            raise ValueError(f"field {each.number} of an attribute has {len(each.value)} bytes")
        unpacked: float = struct.unpack(_FLOATS[each.number], each.value)[0]
        return unpacked
    return None
