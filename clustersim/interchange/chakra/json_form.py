"""The nodes of traces in the two JSON forms: that of ASTRA-sim's reader, and what `chakra_jsonizer` writes.

The first is one document with a list `workload_graph`; the second is the metadata and the nodes as objects one after
the other, with the names of protocol buffers in JSON (mlcommons/chakra, src/feeder/json_node.cpp and src/jsonizer).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from clustersim.errors import InputError, Mistake
from clustersim.interchange.chakra.message import ProtoMessage, Value

_KINDS = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE",
    "COMM_COLL_NODE",
)  # fmt: skip
_NUMBER, _NAME, _KIND = ("id", "nodeid"), ("name",), ("nodetype", "type")
_DATA, _ORDER, _MICROS = ("datadeps",), ("ctrldeps",), ("runtime", "durationmicros")
_NOT_ATTRIBUTES = frozenset(
    {*_NUMBER, *_NAME, *_KIND, *_DATA, *_ORDER, *_MICROS, "attr", "inputs", "outputs", "starttimemicros"}
)
_MOST = 2**64
_GAP = re.compile(r"\s*")


def json_nodes(text: str, file: str) -> tuple[str, list[ProtoMessage]]:
    """Return the version of a trace in JSON (empty if it has none) and its nodes."""
    objects = list(_objects(text, file))
    if len(objects) == 1 and isinstance(objects[0].get("workload_graph"), list):
        nodes, key, version = objects[0]["workload_graph"], "workload_graph.", ""
    elif len(objects) == 1 and isinstance(objects[0].get("nodes"), list):
        raise InputError(
            Mistake(
                "is the host's trace of PyTorch, without the times of kernels; join it with Kineto's by "
                "chakra_trace_link, and convert it with chakra_converter PyTorch",
                file=file, got="schema " + str(objects[0].get("schema"))[:60], allowed="a trace for simulators",
            )
        )  # fmt: skip
    else:
        is_first = bool(objects) and "version" in objects[0] and _of(objects[0], _NUMBER) is None
        version = str(objects[0]["version"])[:60] if is_first else ""
        nodes, key = objects[1:] if is_first else objects, ""
    return version, [_Node(node, f"{key}{number}", file).message() for number, node in enumerate(nodes)]


def _objects(text: str, file: str) -> Iterator[Mapping[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while True:
        gap = _GAP.match(text, at)
        at = gap.end() if gap else at
        if at >= len(text):
            return
        try:
            found, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise InputError(Mistake("is not a Chakra trace: it is nested too deeply", file=file)) from None
        except ValueError as error:
            line = text.count("\n", 0, getattr(error, "pos", at)) + 1
            message = f"is not a Chakra trace: {getattr(error, 'msg', error)}"
            raise InputError(Mistake(message, file=file, line=line)) from None
        if not isinstance(found, dict):
            line = text.count("\n", 0, at) + 1
            raise InputError(Mistake("is not a Chakra trace: it is not a map", file=file, line=line, allowed="a map"))
        yield found


def _plain(key: str) -> str:
    return key.replace("_", "").lower()


def _of(node: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the value of the first of some keys that a node has, in any spelling."""
    return next((value for key, value in node.items() if _plain(key) in keys), None)


class _Node:
    """Reads one node, and says which key is wrong."""

    def __init__(self, node: object, key: str, file: str):
        self._key, self._file = key, file
        if not isinstance(node, dict):
            raise self._wrong("", node, "a map")
        self._node: Mapping[str, Any] = node

    def message(self) -> ProtoMessage:
        """Return the node as a message."""
        name = _of(self._node, _NAME) or ""
        if not isinstance(name, str):
            raise self._wrong(".name", name, "text")
        attributes: dict[str, Value] = {}
        lists: dict[str, tuple[Value, ...]] = {}
        for key, value in self._attributes():
            if isinstance(value, list):
                lists[key] = tuple(self._scalar(key, each) for each in value)
            elif value is not None:
                attributes[key] = self._scalar(key, value)
        return ProtoMessage(
            self._integer(".id", _of(self._node, _NUMBER)), name, self._kind(),
            self._deps(_DATA), self._deps(_ORDER), self._integer(".duration", _of(self._node, _MICROS) or 0),
            attributes, lists, self._inputs(),
        )  # fmt: skip

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        """Yield the attributes: those of `attr`, or all keys that are no field of a node."""
        for key, value in self._node.items():
            if _plain(key) not in _NOT_ATTRIBUTES:
                yield key, value
        found = self._node.get("attr")
        if found is not None and not isinstance(found, list):
            raise self._wrong(".attr", found, "a list")
        for each in found or ():
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise self._wrong(".attr", each, "a map with a name")
            for key, value in each.items():
                if _plain(key).endswith("val"):
                    yield each["name"], _number_of_text(key, value)
                elif _plain(key).endswith("list"):
                    values = value.get("values", []) if isinstance(value, dict) else None
                    if not isinstance(values, list):
                        raise self._wrong(f".attr.{each['name']}", value, "a list of values")
                    yield each["name"], [_number_of_text(key, one) for one in values]

    def _scalar(self, key: str, value: object) -> Value:
        if isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < _MOST):
            return value
        if isinstance(value, float) and isfinite(value):
            return value
        raise self._wrong(f".{key}", value, "a number, text, or a list of these")

    def _integer(self, key: str, value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,20}", value, re.ASCII) else value
        if type(number) is not int or not 0 <= number < _MOST:
            raise self._wrong(key, value, "a whole number, 0 or more")
        return number

    def _kind(self) -> int:
        value = _of(self._node, _KIND)
        if isinstance(value, str) and value in _KINDS:
            return _KINDS.index(value)
        return self._integer(".type", 0 if value is None else value)

    def _deps(self, keys: tuple[str, ...]) -> tuple[int, ...]:
        value = _of(self._node, keys)
        if value is not None and not isinstance(value, list):
            raise self._wrong(f".{keys[0]}", value, "a list of numbers")
        return tuple(self._integer(f".{keys[0]}", each) for each in value or ())

    def _inputs(self) -> str:
        inputs = self._node.get("inputs")
        values = inputs.get("values") if isinstance(inputs, dict) else None
        return values if isinstance(values, str) else ""

    def _wrong(self, key: str, value: object, allowed: str) -> InputError:
        shown = "nothing" if value is None else json.dumps(value)[:60]
        return InputError(
            Mistake(f"expected {allowed} (got {shown})", f"{self._key}{key}", self._file, got=shown, allowed=allowed)
        )


def _number_of_text(key: str, value: Any) -> Any:
    """Return a number for the text that JSON has for 64-bit integers; other values as they are."""
    if "int" in key.lower() and isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value, re.ASCII):
        return int(value)
    return value
