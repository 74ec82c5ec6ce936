"""The shape of every tensor of an ONNX graph, node by node.

onnx infers the outputs of one operator. Values that an exporter computes from shapes (side lengths, slice bounds) are
evaluated with onnx's reference operators, since inference alone stops there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

MOST_ELEMENTS = 4096
"""Size limit of an evaluated constant: shapes and slice bounds are small, tables and masks need not be known."""

_RANDOM_OPS = {"Dropout", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"}


def inferred_types(proto: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Return the type of every tensor whose type can be inferred; an unknown side has no `dim_value`."""
    walk = _Walk(proto)
    for node in proto.graph.node:
        walk.visit(node)
    return walk.types


class _Walk:
    """Types and small constants so far."""

    def __init__(self, proto: onnx.ModelProto):
        self.opsets = {"": 1} | {each.domain.replace("ai.onnx", ""): each.version for each in proto.opset_import}
        self.ir_version = proto.ir_version
        graph = proto.graph
        self.noted = {each.name: each.type for each in (*graph.value_info, *graph.output)}
        self.types = {each.name: each.type for each in graph.input}
        self.constants: dict[str, onnx.TensorProto] = {}
        for each in graph.initializer:
            self.types[each.name] = helper.make_tensor_type_proto(each.data_type, list(each.dims))
            if math.prod(each.dims) <= MOST_ELEMENTS and onnx.external_data_helper.uses_external_data(each) is False:
                self.constants[each.name] = each

    def visit(self, node: onnx.NodeProto) -> None:
        """Record the outputs of one operator."""
        read = [name for name in node.input if name]
        for name, found in self._inferred(node, read).items():
            self.types[name] = found
        for name in node.output:
            if name in self.noted and not _is_known(self.types.get(name)):
                self.types[name] = self.noted[name]
        if node.op_type == "Shape" and _is_known(self.types.get(read[0])) and not node.attribute:
            sizes = np.array([side.dim_value for side in _sides(self.types[read[0]])], dtype=np.int64)
            self.constants[node.output[0]] = numpy_helper.from_array(sizes, node.output[0])
        elif self._can_be_worked_out(node, read):
            self._work_out(node, read)

    def _inferred(self, node: onnx.NodeProto, read: list[str]) -> dict[str, onnx.TypeProto]:
        if any(name not in self.types for name in read):
            return {}
        try:
            schema = defs.get_schema(node.op_type, self.opsets.get(node.domain.replace("ai.onnx", ""), 1), node.domain)
            types = {name: self.types[name] for name in read}
            data = {name: self.constants[name] for name in read if name in self.constants}
            found: dict[str, Any] = shape_inference.infer_node_outputs(schema, node, types, data)
        except (
            defs.SchemaError,
            onnx.checker.ValidationError,
            shape_inference.InferenceError,
            RuntimeError,
            ValueError,
        ):
            return {}
        return found

    def _can_be_worked_out(self, node: onnx.NodeProto, read: list[str]) -> bool:
        if node.op_type in _RANDOM_OPS or any(name not in self.constants for name in read):
            return False
        return all(
            _is_known(self.types.get(name))
            and math.prod(side.dim_value for side in _sides(self.types[name])) <= MOST_ELEMENTS
            for name in node.output
            if name
        )

    def _work_out(self, node: onnx.NodeProto, read: list[str]) -> None:
        """Evaluate an operator whose inputs are all known."""
        values = {name: numpy_helper.to_array(self.constants[name]) for name in read}
        graph = helper.make_graph(
            [node],
            "one",
            [helper.make_value_info(name, self.types[name]) for name in dict.fromkeys(read)],
            [helper.make_value_info(name, self.types[name]) for name in node.output if name],
        )
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        try:
            written = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets)).run(None, values)
        except Exception:  # an operator without a reference, or with unsupported values, stays unknown
            return
        for name, value in zip([name for name in node.output if name], written, strict=True):
            if isinstance(value, np.ndarray | np.generic):
                array = np.asarray(value)
                self.constants[name] = numpy_helper.from_array(array, name)
                self.types[name] = helper.make_tensor_type_proto(self.constants[name].data_type, list(array.shape))


def _sides(found: onnx.TypeProto) -> list[Any]:
    return list(found.tensor_type.shape.dim)


def _is_known(found: onnx.TypeProto | None) -> bool:
    """Return whether a type is a tensor with all sides known."""
    return (
        found is not None
        and found.tensor_type.HasField("shape")
        and all(side.HasField("dim_value") for side in _sides(found))
    )
