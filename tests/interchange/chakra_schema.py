"""Chakra's messages in Google's own library, built from the field numbers of et_def.proto, for comparison with ours."""

from __future__ import annotations

from typing import Any

import pytest

_SCALARS = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "uint32": 13}
_VALUES = {
    "double": 3, "float": 5, "int32": 7, "int64": 9, "uint32": 11, "uint64": 13, "bool": 27, "string": 29,
}  # fmt: skip
_OPTIONAL, _REPEATED, _MESSAGE = 1, 3, 11


def schema() -> dict[str, Any]:
    """Return the classes `Node` and `GlobalMetadata`; skip the test where the library is not installed."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    attribute = file.message_type.add(name="AttributeProto")
    _scalar(attribute, "name", 1, "string")
    attribute.oneof_decl.add(name="value")
    for kind, number in _VALUES.items():
        _scalar(attribute, f"{kind}_val", number, kind).oneof_index = 0
    _scalar(file.message_type.add(name="GlobalMetadata"), "version", 1, "string")
    node = file.message_type.add(name="Node")
    for name, number, kind in (("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "int32")):
        _scalar(node, name, number, kind)
    for name, number in (("ctrl_deps", 4), ("data_deps", 5)):
        _scalar(node, name, number, "uint64").label = _REPEATED
    for name, number in (("start_time_micros", 6), ("duration_micros", 7)):
        _scalar(node, name, number, "uint64")
    node.field.add(name="attr", number=10, type=_MESSAGE, label=_REPEATED, type_name=".ChakraProtoMsg.AttributeProto")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in ("Node", "GlobalMetadata")
    }


def _scalar(message: Any, name: str, number: int, kind: str) -> Any:
    return message.field.add(name=name, number=number, type=_SCALARS[kind], label=_OPTIONAL)


def framed(*messages: Any) -> bytes:
    """Return messages as they stand in a file, each behind its length."""
    from google.protobuf.internal.encoder import _VarintBytes

    return b"".join(_VarintBytes(message.ByteSize()) + message.SerializeToString() for message in messages)


def ring_all_reduce(rank: int, num_ranks: int, num_bytes: int) -> bytes:
    """Return the trace of a rank of a ring all-reduce, made of sends and receives: each send waits for the step before.

    In step k a rank sends a piece of 1 / num_ranks to the next, and receives one from the rank before it.
    """
    classes = schema()
    messages = [classes["GlobalMetadata"](version="0.0.4")]
    after, before = (rank + 1) % num_ranks, (rank - 1) % num_ranks
    for step in range(2 * (num_ranks - 1)):
        for offset, kind, src, dst in ((1, 5, rank, after), (2, 6, before, rank)):
            node = classes["Node"](id=2 * step + offset, name=f"step {step}", type=kind)
            if step:
                node.data_deps.append(2 * step)
            node.attr.add(name="is_cpu_op", bool_val=False)
            node.attr.add(name="comm_size", int64_val=num_bytes // num_ranks)
            for name, value in (("comm_src", src), ("comm_dst", dst), ("comm_tag", step)):
                node.attr.add(name=name, int32_val=value)
            messages.append(node)
    return framed(*messages)
