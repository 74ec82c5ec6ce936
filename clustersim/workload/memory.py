"""What must fit on one GPU: weights, gradients, optimizer state, activations kept for backward, workspace."""

from __future__ import annotations

from collections.abc import Mapping

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.units import format_size
from clustersim.workload.layer import Layer, Model
from clustersim.workload.optimizer import OptimizerSpec
from clustersim.workload.precision import PRECISIONS

WORKSPACE_BYTES = 64 * 1024.0**2
"""Scratch space for convolutions. Assumed: between the 8 MiB that Caffe allows an algorithm (cudnn_conv_layer.cpp)
and MXNet's default of 1 GiB (Convolution's workspace)."""

SLACK = 0.02
"""Share that PyTorch's caching allocator rounds up: blocks of 512 bytes, segments of 2 MiB and more
(c10/cuda/CUDACachingAllocator.cpp). Assumed: no published figure was found."""

CONTEXT_BYTES = 300e6
"""The CUDA context, its kernels and the libraries' handles. Assumed: an idle process shows some hundred MB."""

# What gradients need (PyTorch, tools/autograd/derivatives.yaml): the input of some layers, the output of others.
KEEPS_INPUT = frozenset(
    {"convolution", "fully-connected", "matmul", "batch-norm", "layer-norm", "gelu", "pooling", "lrn", "lstm"}
)
KEEPS_OUTPUT = frozenset({"relu", "softmax", "lstm", "loss"})
KEPT_BESIDE = {  # for each element of the output
    "dropout": 0.25,  # a mask of one byte
    "lrn": 3.0,  # the squares, their mean, and its power
    "pooling": 2.0,  # where each maximum was, an int64
}


def kept_elements(layer: Layer, reader: Layer | None) -> float:
    """Return the elements of one sample that a layer leaves in memory for the backward pass.

    That is its output, if its own gradient needs it or that of the next layer, `reader`, and what it keeps beside it. A
    layer that is overwritten in place (by an activation, or by a residual connection before one) keeps nothing; of
    branches only the next in the list is looked at, and it reads an output if that is no larger than what it reads.
    """
    beside = KEPT_BESIDE.get(layer.op, 0.0) * layer.output_elements if layer.shape or layer.op != "pooling" else 0.0
    if layer.kept_beside is not None:
        beside = layer.kept_beside
    read = reader is not None and reader.op in KEEPS_INPUT and reader.input_elements >= layer.output_elements
    return beside + (layer.output_elements if layer.op in KEEPS_OUTPUT or read else 0.0)


def activation_elements(model: Model) -> float:
    """Return the elements of one sample that are in memory when the backward pass begins, the sample itself included.

    Attention counts as the products, softmax and dropout that its layers say; a kernel that fuses them keeps less.
    """
    readers = (*model.layers[1:], None)
    first = model.layers[0].input_elements if model.layers else 0.0
    return first + sum(kept_elements(layer, reader) for layer, reader in zip(model.layers, readers, strict=True))


def memory_per_gpu(
    model: Model, batch: int, precision: str, optimizer: OptimizerSpec, gradient_bytes: float | None = None
) -> dict[str, float]:
    """Return the bytes one GPU holds in data-parallel training, by what they are for.

    Activations are what the backward pass will need of a batch (`activation_elements`), and the largest output
    twice more as the gradients that a layer reads and writes; workspace is a buffer for algorithms, the context what
    CUDA itself takes, and slack what the allocator rounds up (`SLACK`). `gradient_bytes` is a gradient's size in
    memory, by default the precision's. A compressed model's weights
    take its `weight_share`. Left out: gradients' communication buffers.
    """
    number = PRECISIONS[precision]
    parameters = float(model.num_parameters)
    largest = max((layer.output_elements for layer in model.layers), default=0.0)
    held = {
        "weights": parameters * model.weight_share * (number.weight_bytes + number.master_bytes),
        "gradients": parameters * (number.gradient_bytes if gradient_bytes is None else gradient_bytes),
        "optimizer": parameters * optimizer.state_bytes_per_parameter,
        "activations": (activation_elements(model) + 2 * largest) * batch * number.activation_bytes,
    }
    slack = SLACK * sum(held.values())
    return {**held, "workspace": WORKSPACE_BYTES, "context": CONTEXT_BYTES, "slack": slack}


def memory_overflow(memory_bytes: Mapping[str, float], gpu: Gpu) -> str | None:
    """Return the sentence that says by how much a plan does not fit, the sum written out; None where it fits."""
    total = sum(memory_bytes.values())
    if total <= gpu.memory_bytes:
        return None
    parts = " + ".join(f"{name} {format_size(size)}" for name, size in memory_bytes.items())
    return (
        f"one {gpu.name} holds {format_size(gpu.memory_bytes)}, and this needs {format_size(total)}: {parts}; "
        "use a smaller batch per GPU, a GPU with more memory, or memory_check: false to run it all the same"
    )


def check_memory(memory_bytes: Mapping[str, float], gpu: Gpu) -> None:
    """Refuse a plan that does not fit on the GPU, with the sum written out."""
    sentence = memory_overflow(memory_bytes, gpu)
    if sentence:
        raise InputError(sentence, got=format_size(sum(memory_bytes.values())), allowed=format_size(gpu.memory_bytes))
