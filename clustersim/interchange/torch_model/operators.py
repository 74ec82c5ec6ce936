"""Cost of each operator of torch (aten): GEMMs and convolutions by their FLOP, all others by their elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor
from torch.utils._pytree import tree_leaves

from clustersim.interchange.torch_model.work import NUM_IMAGES, Kernel, gemm_shape


class Tracked(Protocol):
    """Known properties of tensors while a module runs."""

    def has_data(self, tensor: Tensor) -> bool:
        """Return whether a tensor depends on the inputs."""
        ...

    def is_weight(self, tensor: Tensor) -> bool:
        """Return whether a tensor is computed only from parameters."""
        ...


_FREE = {"detach", "alias", "lift_fresh", "_to_copy", "_unsafe_view", "unsafe_split", "unsafe_split_with_sizes"}
_CONSTANTS = {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"} | {
    "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "empty_strided",
}  # fmt: skip
_WRITES_FIRST = {"batch-norm", "layer-norm", "group-norm", "rms-norm"}  # the other outputs are statistics
_OPS = {
    "max_pool2d_with_indices": "pooling", "max_pool3d_with_indices": "pooling", "avg_pool2d": "pooling",
    "avg_pool3d": "pooling", "cat": "concat", "clone": "copy", "mul": "multiply", "div": "divide",
    "sub": "subtract", "embedding_bag": "embedding", "fused_rms_norm": "rms-norm", "cudnn_batch_norm": "batch-norm",
}  # fmt: skip


def passes_through(func: Any) -> bool:
    """Return whether an operator costs nothing: a view of its tensor, or a change of its number format."""
    views = any(found.alias_info and not found.alias_info.is_write for found in func._schema.returns)
    return views or _name(func) in _FREE


def makes_constants(func: Any) -> bool:
    """Return whether an operator uses only a tensor's shape."""
    return _name(func) in _CONSTANTS


def kernel_of(
    tracked: Tracked, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Any
) -> list[Kernel]:
    """Return the kernels of an operator; none where it writes no real numbers."""
    written = _real(outputs)
    if not written:
        return []
    name = _name(func)
    if name == "convolution":
        return [_convolution(args, written[0])]
    if name in _GEMM_OPS:
        left, right = _GEMM_OPS[name](args)
        read = sum(_size(tensor, tracked) for tensor in _real((list(args), dict(kwargs))))
        return [_gemm(tracked, left, right, read, written[0].numel())]
    op = op_name(name)
    read = sum(_size(tensor, tracked) for tensor in _tensors((list(args), dict(kwargs))))
    number = written[0].numel() if op in _WRITES_FIRST else sum(tensor.numel() for tensor in written)
    shape = _window(args, written[0]) if op == "pooling" else {}
    kept = 0.0 if name.startswith("avg_pool") else None  # a mean needs no more than its input's shape
    return [Kernel(op, read, number, shape=shape, kept_bytes=kept)]


def op_name(name: str) -> str:
    """Return the workload's name of an operator.

    >>> op_name("native_batch_norm"), op_name("_softmax"), op_name("relu_"), op_name("cat")
    ('batch-norm', 'softmax', 'relu', 'concat')
    """
    plain = name.strip("_").removeprefix("native_").removesuffix("_kernel")
    return _OPS.get(plain, plain.replace("_", "-"))


def _name(func: Any) -> str:
    return str(func._schema.name).partition("::")[2]


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _real(tree: Any) -> list[Tensor]:
    return [tensor for tensor in _tensors(tree) if tensor.is_floating_point() or tensor.is_complex()]


def _size(tensor: Tensor, tracked: Tracked) -> int:
    """Return the elements moved by reading a tensor; parameters are not counted, as they are not activations."""
    return 0 if tracked.is_weight(tensor) else tensor.numel()


def _convolution(args: Sequence[Any], y: Tensor) -> Kernel:
    """Return a convolution of one, two or three dimensions; depth and height are folded into one."""
    x, weight, _, stride, padding, _, transposed, _, groups = args[:9]
    per_position = math.prod(weight.shape[1:])
    flop = 2.0 * per_position * (x.numel() / x.shape[1] * weight.shape[0] if transposed else y.numel())
    needs = int(x.requires_grad), int(weight.requires_grad)
    if transposed:
        rows = math.prod(x.shape[2:]) * x.shape[0]
        shape = gemm_shape(rows, weight.shape[0] // groups, per_position, groups)
        return Kernel("transposed-convolution", x.numel(), y.numel(), flop, *needs, shape)
    shape = _places(x, y, weight.shape[2:], stride, padding)
    shape = {**shape, "filters": y.shape[1], "groups": groups}
    return Kernel("convolution", x.numel(), y.numel(), flop, *needs, shape)


def _places(
    x: Tensor, y: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> dict[str, int]:
    """Return the keys of the shape of a sliding window, as `Builder` writes them."""
    num_dims = x.dim() - 2
    stride, padding = _each(stride, num_dims), _each(padding, num_dims)
    return {
        NUM_IMAGES: x.shape[0],
        "channels": x.shape[1],
        "height": math.prod(x.shape[2:-1]),
        "width": x.shape[-1],
        "kernel_h": math.prod(kernel[:-1]),
        "kernel_w": kernel[-1],
        "stride_h": math.prod(stride[:-1]),
        "stride_w": stride[-1],
        "pad_h": max(padding[:-1], default=0),
        "pad_w": padding[-1],
        "out_height": math.prod(y.shape[2:-1]),
        "out_width": y.shape[-1],
    }


def _window(args: Sequence[Any], y: Tensor) -> dict[str, int]:
    """Return the shape of a pooling: its arguments are input, kernel, stride (the kernel where empty), padding."""
    x, kernel = args[0], args[1]
    if x.dim() != len(kernel) + 2:
        return {}
    stride = args[2] if len(args) > 2 and args[2] else kernel
    padding = args[3] if len(args) > 3 else [0]
    return _places(x, y, _each(kernel, x.dim() - 2), stride, padding)


def _each(values: Sequence[int], num_dims: int) -> list[int]:
    return list(values) * num_dims if len(values) == 1 else list(values)


def _gemm(tracked: Tracked, left: Tensor, right: Tensor, read: int, written: int) -> Kernel:
    """Return a GEMM of [count, rows, inputs] by [count, inputs, outputs], or of a matrix by a matrix or vector.

    A GEMM of data with weights is a fully connected layer, with the data on the left, whatever the order of operands.
    """
    count = left.shape[0] if left.dim() == 3 else 1
    rows, inputs = left.shape[-2:]
    outputs = right.shape[-1] if right.dim() > 1 else 1
    data = [tensor for tensor in (left, right) if not tracked.is_weight(tensor)]
    weights = [tensor for tensor in (left, right) if tracked.is_weight(tensor)]
    if weights and left is weights[0] and data:
        rows, outputs = outputs, rows
    return Kernel(
        "fully-connected" if weights else "matmul",
        read,
        written,
        2.0 * count * rows * inputs * outputs,
        sum(tensor.requires_grad for tensor in data),
        sum(tensor.requires_grad for tensor in weights),
        gemm_shape(rows, inputs, outputs, count),
    )


_GEMM_OPS: Mapping[str, Callable[[Sequence[Any]], tuple[Tensor, Tensor]]] = {
    "mm": lambda args: (args[0], args[1]),
    "bmm": lambda args: (args[0], args[1]),
    "addmm": lambda args: (args[1], args[2]),
    "baddbmm": lambda args: (args[1], args[2]),
    "_addmm_activation": lambda args: (args[1], args[2]),
    "mv": lambda args: (args[0], args[1]),
    "addmv": lambda args: (args[1], args[2]),
}
