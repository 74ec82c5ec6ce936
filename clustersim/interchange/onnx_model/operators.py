"""Cost of each ONNX operator for a batch: GEMMs and convolutions by their FLOP, all others by their elements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from clustersim.interchange.onnx_model.graph import OnnxGraph, OnnxNode


class Known(Protocol):
    """Known properties of tensors during a pass over a graph."""

    graph: OnnxGraph

    def is_weight(self, tensor: str) -> bool:
        """Return whether a tensor is computed only from constants."""
        ...

    def needs_gradient(self, tensor: str) -> bool:
        """Return whether the backward pass continues below a tensor."""
        ...


@dataclass(frozen=True)
class OpCost:
    """One kernel; FLOP and elements are a batch's, `shape` is one sample's as in `Layer.shape`.

    `data_gradients` and `weight_gradients` count the backward GEMMs, each as large as the forward one.
    """

    op: str
    input_elements: float
    output_elements: float
    flop: float = 0.0
    data_gradients: int = 0
    weight_gradients: int = 0
    shape: Mapping[str, int] = field(default_factory=dict)
    label: str = ""
    kept_bytes: float | None = None  # as in `Layer`


Recipe = Callable[[Known, OnnxNode], list[OpCost]]

FREE = {
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "CastLike", "Transpose", "Slice", "Split",
    "Expand", "SequenceConstruct", "SequenceAt", "SplitToSequence",
}  # fmt: skip
"""Operators that are views of a tensor, as in training."""

SHAPES = {"Shape", "Size"}
"""Operators that read only a tensor's shape: values computed from their results are constants."""

UNTRAINED = {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "QGemm", "QLinearAdd"}

TRAINED_INPUTS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "BatchNormalization", "LayerNormalization"), (1, 2)),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), (1, 2)),
    **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization", "PRelu"), (1,)),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (1, 2, 3)),
    **dict.fromkeys(("MatMul", "Add", "Mul", "Sub", "Div"), (0, 1)),
    "Gemm": (0, 1, 2),
    "Gather": (0,),
    "Concat": tuple(range(64)),
    "Einsum": tuple(range(8)),
}
"""Inputs of an operator that are parameters; a constant elsewhere is a statistic, a mask or a scale."""


def is_parameter(op: str, shape: Sequence[int]) -> bool:
    """Return whether a constant of this shape, at a parameter input of an operator, is trained.

    A scalar is a scale, except a PRelu's slope. Multiplications have vectors (one number a channel) and no tables,
    which are tables of sines; sums have biases and tables of positions, but no square ones, which are masks.

    >>> is_parameter("Mul", (64, 1, 1)), is_parameter("Mul", (128, 64)), is_parameter("Add", (1, 1, 128, 128))
    (True, False, False)
    """
    sides = [size for size in shape if size > 1]
    if op in ("Mul", "Div"):
        return len(sides) == 1
    return op == "PRelu" or (
        bool(sides) and not (op in ("Add", "Sub") and len(sides) == 2 and sides[0] == sides[1] == shape[-1])
    )


_NAMES = {
    "Mul": "multiply", "Sub": "subtract", "Div": "divide", "BatchNormalization": "batch-norm",
    "LayerNormalization": "layer-norm", "GroupNormalization": "group-norm", "InstanceNormalization": "instance-norm",
    "RMSNormalization": "rms-norm", "SimplifiedLayerNormalization": "rms-norm", "GlobalAveragePool": "pooling",
    "GlobalMaxPool": "pooling", "ReduceMean": "mean", "ReduceSum": "sum", "LRN": "lrn", "PRelu": "prelu",
}  # fmt: skip
_KEPT = {"LSTM": 6, "GRU": 4, "RNN": 1}  # gates, cell and state, of each token


def elementwise(known: Known, node: OnnxNode) -> list[OpCost]:
    """Return the cost of reading the data inputs and writing the result."""
    return [OpCost(op_name(node.op), _read(known, node), _written(known, node))]


def op_name(op: str) -> str:
    """Return the workload's name of an operator.

    >>> op_name("BatchNormalization"), op_name("LogSoftmax"), op_name("Relu")
    ('batch-norm', 'log-softmax', 'relu')
    """
    return _NAMES.get(op) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", op).lower()


def _read(known: Known, node: OnnxNode) -> int:
    return sum(_size(known, tensor, node) for tensor in node.inputs if tensor and not known.is_weight(tensor))


def _written(known: Known, node: OnnxNode) -> int:
    """Return the elements of the first output: others are indices, masks and statistics."""
    return _size(known, node.outputs[0], node)


def _size(known: Known, tensor: str, node: OnnxNode) -> int:
    return math.prod(known.graph.shape(tensor, node))


def _convolution(known: Known, node: OnnxNode) -> list[OpCost]:
    """A convolution of one, two or three dimensions; depth and height are folded into one."""
    x, weight, y = (known.graph.shape(name, node) for name in (node.inputs[0], node.inputs[1], node.outputs[0]))
    flop = 2.0 * math.prod(weight[1:]) * math.prod(y)
    shape = _window(known, node, x, y, weight[2:]) | {
        "filters": weight[0],
        "groups": int(node.attributes.get("group", 1)),
    }
    needs = int(known.needs_gradient(node.inputs[0]))
    return [OpCost("convolution", math.prod(x), math.prod(y), flop, needs, 1, shape)]


def _transposed(known: Known, node: OnnxNode) -> list[OpCost]:
    """The backward pass to data of a convolution, run forward."""
    x, weight, y = (known.graph.shape(name, node) for name in (node.inputs[0], node.inputs[1], node.outputs[0]))
    groups = int(node.attributes.get("group", 1))
    per_position = math.prod(weight[1:])
    rows = x[0] * math.prod(x[2:]) // known.graph.batch
    shape = _gemm_shape(rows, x[1] // groups, per_position, groups)
    flop = 2.0 * per_position * math.prod(x)
    needs = int(known.needs_gradient(node.inputs[0]))
    return [OpCost("transposed-convolution", math.prod(x), math.prod(y), flop, needs, 1, shape)]


def _pool(known: Known, node: OnnxNode) -> list[OpCost]:
    """A maximum or a mean of each window; the backward pass of a mean does not need its input."""
    x, y = (known.graph.shape(name, node) for name in (node.inputs[0], node.outputs[0]))
    shape = _window(known, node, x, y, node.attributes["kernel_shape"])
    kept = None if node.op == "MaxPool" else 0.0
    return [OpCost("pooling", math.prod(x), math.prod(y), shape=shape, kept_bytes=kept)]


def _window(known: Known, node: OnnxNode, x: Sequence[int], y: Sequence[int], kernel: Sequence[int]) -> dict[str, int]:
    """Return the keys of the shape of a sliding window; pads are those at the upper left."""
    num_dims = len(x) - 2
    strides = node.attributes.get("strides") or [1] * num_dims
    pads = node.attributes.get("pads") or _pads(node, x, y, kernel, strides)
    images = max(1, x[0] // known.graph.batch)
    return {
        "channels": x[1],
        "height": images * math.prod(x[2:-1]),
        "width": x[-1],
        "kernel_h": math.prod(kernel[:-1]),
        "kernel_w": kernel[-1],
        "stride_h": math.prod(strides[:-1]),
        "stride_w": strides[-1],
        "pad_h": max(pads[: num_dims - 1], default=0),
        "pad_w": pads[num_dims - 1],
        "out_height": images * math.prod(y[2:-1]),
        "out_width": y[-1],
    }


def _pads(
    node: OnnxNode, x: Sequence[int], y: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """Return the pads of `auto_pad`: as many as the output size needs, half at the upper left."""
    sides = zip(x[2:], y[2:], kernel, strides, strict=True)
    short = [max(0, (out - 1) * stride + side - size) for size, out, side, stride in sides]
    lower = node.attributes.get("auto_pad") == "SAME_LOWER"
    return [(missing + lower) // 2 for missing in short]


def _gemm(known: Known, node: OnnxNode) -> list[OpCost]:
    left, right = (known.graph.shape(name, node) for name in node.inputs[:2])
    rows, inputs = left[::-1] if node.attributes.get("transA") else left
    outputs = right[0] if node.attributes.get("transB") else right[-1]
    return [_multiplied(known, node, 1, rows, inputs, outputs)]


def _matmul(known: Known, node: OnnxNode) -> list[OpCost]:
    """A matrix product with numpy's broadcasting: a matrix of weights multiplies all rows at once."""
    left, right = (known.graph.shape(name, node) for name in node.inputs[:2])
    if len(right) <= 2:
        return [_multiplied(known, node, 1, math.prod(left[:-1]), left[-1], right[-1] if len(right) > 1 else 1)]
    rows = left[-2] if len(left) > 1 else 1
    count = math.prod(known.graph.shape(node.outputs[0], node)) // (rows * right[-1])
    return [_multiplied(known, node, count, rows, left[-1], right[-1])]


def _multiplied(known: Known, node: OnnxNode, count: int, rows: int, inputs: int, outputs: int) -> OpCost:
    """Return `count` GEMMs of rows x inputs by inputs x outputs; the batch is either in the rows or in the count."""
    pair = node.inputs[:2]
    weights = [tensor for tensor in pair if known.is_weight(tensor)]
    needing = sum(known.needs_gradient(tensor) for tensor in pair)
    flop = 2.0 * count * rows * inputs * outputs
    batch = known.graph.batch
    if weights and weights[0] == pair[0] and count == 1:
        rows, outputs = outputs, rows
    shape: Mapping[str, int] = {}
    if count > 1 and count % batch == 0:
        shape = _gemm_shape(rows, inputs, outputs, count // batch)
    elif count == 1 and rows % batch == 0:
        shape = _gemm_shape(rows // batch, inputs, outputs, 1)
    op = "fully-connected" if weights else "matmul"
    return OpCost(op, _read(known, node), _written(known, node), flop, needing, len(weights), shape)


def _einsum(known: Known, node: OnnxNode) -> list[OpCost]:
    """A product over named dimensions: 2 FLOP for each combination of all of them. It has no shape."""
    terms = str(node.attributes["equation"]).replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, node.inputs, strict=True):
        shape = known.graph.shape(tensor, node)
        letters = term.replace("...", "")
        spread = len(shape) - len(letters)
        names = list(term.replace("...", "." * spread)) if "..." in term else list(letters)
        sizes |= {name if name != "." else f".{place}": shape[place] for place, name in enumerate(names)}
    weights = [tensor for tensor in node.inputs if known.is_weight(tensor)]
    needing = sum(known.needs_gradient(tensor) for tensor in node.inputs)
    flop = 2.0 * math.prod(sizes.values()) if len(terms) > 1 else 0.0
    op = "fully-connected" if weights else "matmul"
    return [OpCost(op, _read(known, node), _written(known, node), flop, needing, len(weights))]


def _attention(known: Known, node: OnnxNode) -> list[OpCost]:
    """Fused attention of [batch, heads, tokens, width], or of [batch, tokens, heads x width] with given heads."""
    query, key, value = (known.graph.shape(name, node) for name in node.inputs[:3])
    heads = int(node.attributes.get("q_num_heads", query[1]))
    kv_heads = int(node.attributes.get("kv_num_heads", heads))
    rows, keys = query[-2], key[-2]
    width = query[-1] if len(query) == 4 else query[-1] // heads
    outputs = value[-1] if len(value) == 4 else value[-1] // kv_heads
    images = query[0] // known.graph.batch or 1
    needs = [known.needs_gradient(name) for name in node.inputs[:3]]
    scored = 2.0 * query[0] * heads * rows * width * keys
    mixed = 2.0 * query[0] * heads * rows * keys * outputs
    read, written = math.prod(query) + math.prod(key), _written(known, node)
    shapes = [_gemm_shape(rows, width, keys, images * heads), _gemm_shape(rows, keys, outputs, images * heads)]
    return [
        OpCost("matmul", read, 0, scored, sum(needs[:2]), 0, shapes[0], "scores"),
        OpCost("matmul", math.prod(value), written, mixed, int(any(needs[:2])) + needs[2], 0, shapes[1], "context"),
    ]


def _recurrent(known: Known, node: OnnxNode) -> list[OpCost]:
    """An LSTM, GRU or RNN: one GEMM of [input, state] with all gates for each token and direction."""
    x, weight, state = (known.graph.shape(name, node) for name in node.inputs[:3])
    ways, gates, inputs = weight
    hidden = state[-1]
    tokens, samples = (x[1], x[0]) if node.attributes.get("layout") else (x[0], x[1])
    op = node.op.lower()
    flop = 2.0 * (inputs + hidden) * gates * tokens * samples
    needs = int(known.needs_gradient(node.inputs[0]))
    shape = _gemm_shape(max(1, samples // known.graph.batch), inputs + hidden, gates, tokens)
    kept = _KEPT[node.op] * hidden * tokens * samples
    labels = ("forward", "reverse") if ways > 1 else ("",)
    return [OpCost(op, math.prod(x), kept, flop, needs, 1, shape, label) for label in labels]


def _gather(known: Known, node: OnnxNode) -> list[OpCost]:
    """A lookup: of words in a table of weights, or of some of the data."""
    if known.is_weight(node.inputs[0]):
        return [OpCost("embedding", _read(known, node), _written(known, node))]
    return elementwise(known, node)


def _gemm_shape(rows: int, inputs: int, outputs: int, count: int) -> dict[str, int]:
    return {"rows": rows, "inputs": inputs, "outputs": outputs, "count": count}


RECIPES: Mapping[str, Recipe] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Einsum": _einsum,
    "Attention": _attention,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Gather": _gather,
}
