"""Reads an ONNX file: nodes, the shape of every tensor, and the set of weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, inliner

from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.interchange.onnx_model.shapes import MOST_ELEMENTS, inferred_types

_REAL = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}
_BRANCHING = {"If", "Loop", "Scan"}


@dataclass(frozen=True)
class OnnxNode:
    """An operator: its name in the file, inputs and outputs by name (empty if omitted), attributes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def input(self, place: int) -> str:
        """Return the input at an index, empty if omitted."""
        return self.inputs[place] if place < len(self.inputs) else ""


@dataclass
class OnnxGraph:
    """A whole file. `weights` has the shape of every real constant, `inputs` those of the inputs."""

    path: Path
    nodes: list[OnnxNode]
    inputs: dict[str, tuple[int, ...]]
    outputs: list[str]
    weights: dict[str, tuple[int, ...]]
    batch: int
    opset: int
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    real: set[str] = field(default_factory=set)

    def shape(self, tensor: str, node: OnnxNode) -> tuple[int, ...]:
        """Return the shape of a tensor that a node reads or writes."""
        if tensor in self.shapes:
            return self.shapes[tensor]
        raise InputError(
            Mistake(
                f"the shape of '{tensor}' at {node.op} '{node.name}' cannot be inferred; export the model with fixed "
                "sizes, or give open ones with --dim",
                file=str(self.path),
                got=tensor,
            )
        )


def read_graph(path: Path, sizes: Mapping[str, int], batch: int | None = None) -> OnnxGraph:
    """Return the graph of a file with every open dimension set: from `sizes`, and a leading one to 1.

    With a `batch` no dimension is used as the batch.
    """
    proto = _load(path)
    graph = proto.graph
    constants = {each.name for each in graph.initializer}
    fed = [each for each in graph.input if each.name not in constants]
    leading = _fill(path, fed, graph, sizes, batch is None)
    _forget_weights(graph)
    found = OnnxGraph(
        path,
        [_node(each, index) for index, each in enumerate(graph.node)],
        {each.name: _sizes(each) for each in fed},
        [each.name for each in graph.output],
        {each.name: tuple(each.dims) for each in graph.initializer if each.data_type in _REAL},
        batch or leading,
        max((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), default=1),
    )
    for name, kind in inferred_types(proto).items():
        if kind.tensor_type.elem_type in _REAL:
            found.real.add(name)
        if kind.tensor_type.HasField("shape") and all(size.dim_value > 0 for size in kind.tensor_type.shape.dim):
            found.shapes[name] = tuple(int(size.dim_value) for size in kind.tensor_type.shape.dim)
    return found


def _load(path: Path) -> onnx.ModelProto:
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or error}") from None
    except Exception as error:  # protobuf's own errors differ between its implementations
        raise _refused(path, f"this is not an ONNX file: {_first_line(error)}") from None
    if not proto.graph.node:
        raise _refused(path, "this is not an ONNX file: it has no operators")
    if not all(isinstance(name, str) for name in _names(proto.graph)):
        raise _refused(path, "this is not an ONNX file, or it is truncated: a name in it is not text in UTF-8")
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    for node in proto.graph.node:
        if node.op_type in _BRANCHING:
            raise _refused(
                path, f"{node.op_type} '{node.name}' does work that depends on data; export the model without it"
            )
    return proto


def _names(graph: onnx.GraphProto) -> Iterator[object]:
    """Yield every name of a graph; protobuf gives bytes for names that are not text."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (each.name for each in node.attribute)
    yield from (each.name for each in (*graph.initializer, *graph.input, *graph.output, *graph.value_info))


def _refused(path: Path, message: str) -> InputError:
    return InputError(Mistake(message, file=str(path)))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _fill(path: Path, fed: list[Any], graph: onnx.GraphProto, sizes: Mapping[str, int], is_batch_first: bool) -> int:
    """Set every open dimension of the inputs, and wherever its name occurs again; return the leading dimension."""
    if not fed or not _dims(fed[0]):
        raise _refused(path, "its first input has no batch: a model to train reads at least one tensor of samples")
    first = _dims(fed[0])[0]
    known = dict(sizes)
    if first.dim_param and is_batch_first:
        known.setdefault(first.dim_param, 1)
    opened = {_name(each, place): size for each in fed for place, size in enumerate(_dims(each)) if not size.dim_value}
    unused = [name for name in sizes if name not in opened]
    if unused:
        raise InputError(unknown_name("open dimension", unused[0], opened or ["none"]).mistakes)
    if not first.dim_value and is_batch_first:
        known.setdefault(_name(fed[0], 0), 1)
    missing = [name for name in opened if name not in known]
    if missing:
        given = " ".join(f"--dim {name}=SIZE" for name in dict.fromkeys(missing))
        raise InputError(
            Mistake(
                f"the size of {', '.join(dict.fromkeys(missing))} is open; add {given}", file=str(path), got=missing[0]
            )
        )
    for name, size in opened.items():
        size.dim_value = known[name]
    for each in (*graph.value_info, *graph.output):
        for size in _dims(each):
            if size.dim_param in known:
                size.dim_value = known[size.dim_param]
            elif size.dim_param:
                size.Clear()
    for each in fed:
        for size in _dims(each):
            if size.dim_param in known:
                size.dim_value = known[size.dim_param]
    return int(first.dim_value)


def _name(value: Any, place: int) -> str:
    """Return the name of an open dimension: as in the file, otherwise its input and index."""
    return str(_dims(value)[place].dim_param or f"{value.name}.{place}")


def _dims(value: Any) -> list[Any]:
    return list(value.type.tensor_type.shape.dim)


def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(int(size.dim_value) for size in _dims(value))


def _forget_weights(graph: onnx.GraphProto) -> None:
    """Drop the numbers of large constants: only their sizes are needed."""
    for each in graph.initializer:
        if math.prod(each.dims) > MOST_ELEMENTS:
            for numbers in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                each.ClearField(numbers)


def _node(node: onnx.NodeProto, index: int) -> OnnxNode:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    name = node.name or next((output for output in node.output if output), f"{node.op_type}.{index}")
    return OnnxNode(name, node.op_type, tuple(node.input), tuple(node.output), dict(_plain(attributes)))


def _plain(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in attributes.items():
        yield name, value.decode(errors="replace") if isinstance(value, bytes) else value
