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

CONTEXT_BYTES = 300e6
"""The CUDA context, its kernels and the libraries' handles. Assumed: an idle process shows some hundred MB."""

# Layers that overwrite their input in every framework: the output takes no memory of its own.
IN_PLACE = frozenset({"relu", "dropout"})


def kept_elements(layer: Layer) -> float:
    """Return the elements of one sample that a layer leaves in memory for the backward pass.

    That is its output; nothing for a layer that overwrites its input, and a mask of a quarter (one byte
    an element) where it drops.
    """
    if layer.op == "dropout":
        return layer.output_elements / 4
    return 0.0 if layer.op in IN_PLACE else layer.output_elements


def memory_per_gpu(
    model: Model, batch: int, precision: str, optimizer: OptimizerSpec, gradient_bytes: float | None = None
) -> dict[str, float]:
    """Return the bytes one GPU holds in data-parallel training, by what they are for.

    Activations are the outputs of all layers for a batch (`kept_elements`), the input among them, and the
    largest of them once more as the gradient that is on its way; workspace is a buffer for algorithms, and
    the context what CUDA itself takes. `gradient_bytes` is a gradient's size in memory, by default the
    precision's. Left out: fragmentation and gradients' communication buffers.
    """
    number = PRECISIONS[precision]
    parameters = float(model.num_parameters)
    first = model.layers[0].input_elements if model.layers else 0.0
    outputs = sum(kept_elements(layer) for layer in model.layers)
    largest = max((layer.output_elements for layer in model.layers), default=0.0)
    return {
        "weights": parameters * (number.weight_bytes + number.master_bytes),
        "gradients": parameters * (number.gradient_bytes if gradient_bytes is None else gradient_bytes),
        "optimizer": parameters * optimizer.state_bytes_per_parameter,
        "activations": (first + outputs + largest) * batch * number.activation_bytes,
        "workspace": WORKSPACE_BYTES,
        "context": CONTEXT_BYTES,
    }


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
