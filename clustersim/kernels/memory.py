"""What must fit on one GPU: weights, gradients, optimizer state, activations kept for backward, workspace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.memo import once
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.model.layer import Layer, Model
from clustersim.model.precision import PRECISIONS, Precision
from clustersim.units import format_size

WORKSPACE_BYTES = 64 * 1024.0**2
"""Scratch space for convolutions. Assumed: between the 8 MiB that Caffe allows an algorithm (cudnn_conv_layer.cpp)
and MXNet's default of 1 GiB (Convolution's workspace)."""

SLACK = 0.02
"""Share that PyTorch's caching allocator rounds up: blocks of 512 bytes, segments of 2 MiB and more
(c10/cuda/CUDACachingAllocator.cpp). Assumed: no published figure was found."""

CONTEXT_BYTES = 426 * 1024.0**2
"""The CUDA context, its kernels and the libraries' handles: what an idle PyTorch 2.10 takes of an RTX 6000 Ada
(unslothai/unsloth-zoo, pull request 1053); "around 400MB" since CUDA 11.7 loads kernels as they are needed, and more
than 1 GB before (pytorch/pytorch, issues 109888 and 107667)."""

LOSS_BYTES = 4.0
"""An element of what a loss over classes or a vocabulary reads and writes: fp32 also where layers compute in 16 bits
(Korthikanti et al., arXiv:2205.05198, section 4.3; `output.float()` in Megatron-LM and torchtitan)."""

# What gradients need (PyTorch, tools/autograd/derivatives.yaml): the input of some layers, the output of others.
PRODUCTS = frozenset(
    {
        *("convolution", "transposed-convolution", "locally-connected", "transposed-locally-connected"),
        *("fully-connected", "experts", "matmul", "lstm", "gru", "rnn"),
    }
)
NORMS = frozenset({"batch-norm", "instance-norm", "group-norm", "layer-norm", "rms-norm", "lrn"})
GATES = frozenset({"gelu", "silu", "mish", "hardswish", "elu", "leaky-relu", "prelu", "softplus"})
TIMES = frozenset({"multiply", "divide"})
KEEPS_INPUT = PRODUCTS | NORMS | GATES | TIMES | {"pooling"}
KEEPS_OUTPUT = frozenset(
    {"relu", "softmax", "log-softmax", "sigmoid", "tanh", "exp", "sqrt", "lstm", "gru", "rnn", "loss"}
)
FIXED_BYTES = {"dropout": 1.0, "pooling": 8.0}  # for each element of the output: a mask; each maximum's place, an int64
WIDE = frozenset({"group-norm", "layer-norm", "softmax", "log-softmax", "exp", "softplus", "loss"})
"""What CUDA's autocast computes in fp32, whatever it reads (docs of torch.amp, 'CUDA Ops that can autocast to
float32'). Products it computes in 16 bits; everything else goes by what it reads."""


@lru_cache(maxsize=64)
def numbers_of(precision: str, casts_all: bool = False) -> Precision:
    """Return how wide numbers are that layers read and write; `casts_all` says all of them are those of a product.

    So it is where the model itself is cast, and not by autocast what each operation reads: in Megatron-LM
    (`Float16Module`), DeepSpeed (`module.half()`, `.bfloat16()`) and FSDP (`MixedPrecision(param_dtype=...)`).
    """
    number = PRECISIONS[precision]
    return replace(number, weight_bytes=number.activation_bytes) if casts_all else number


@once(64)
def written_bytes(model: Model, number: Precision) -> tuple[float, ...]:
    """Return the bytes of one element of each layer's output.

    Without autocast, those of an activation, and `LOSS_BYTES` of a loss. Under it products write 16 bits, and what is
    safer in fp32 writes that (`WIDE`, a table's rows, an `lrn` by its power); others write what they read. An addition
    writes the wider of what the layer before it and the addition before that wrote (at first, the first layer), or of
    its own parameters.
    """
    narrow, wide = number.activation_bytes, number.weight_bytes
    written: list[float] = []
    before = stream = wide
    for index, layer in enumerate(model.layers):
        if layer.op == "loss":
            before = LOSS_BYTES
        elif layer.op in PRODUCTS:
            before = narrow
        elif layer.op in WIDE or layer.op in ("embedding", "lrn"):
            before = wide
        elif layer.op == "add":
            before = stream = wide if layer.num_parameters else max(before, stream)
        if not index:
            stream = before
        written.append(before)
    return tuple(written)


@once(64)
def kept_bytes(model: Model, precision: str, casts_all: bool = False) -> tuple[float, ...]:
    """Return the bytes of one sample that each layer leaves in memory for the backward pass.

    That is its output, if its own gradient needs it or that of the next layer, and what it keeps beside it: masks and
    places, whose size no precision changes, and factors. A product under autocast keeps the 16-bit copy that it reads.
    A layer that is overwritten in place (by an activation, or by a residual connection before one) keeps nothing; of
    branches only the next in the list is looked at, and it reads an output if that is no larger than what it reads.
    """
    number = numbers_of(precision, casts_all)
    written = written_bytes(model, number)
    outputs: list[float] = []
    kept: list[float] = []
    for index, layer in enumerate(model.layers):
        reader = model.layers[index + 1] if index + 1 < len(model.layers) else None
        own = {written[index]} if layer.op in KEEPS_OUTPUT else set()
        if reader is not None and _keeps_input(reader) and _reads(reader, layer):
            own.add(_read_bytes(reader, written[index], number))
        beside = _fixed_bytes(layer) + _factor_bytes(model, index, outputs, written[index], number)
        outputs.append(layer.output_elements * sum(own))
        kept.append(outputs[-1] + beside)
    return tuple(kept)


def _reads(reader: Layer, layer: Layer) -> bool:
    """Return whether an output is no larger than what the next layer reads; of query, key and value it reads two."""
    return reader.input_elements >= layer.output_elements or reader.op == "matmul"


def _keeps_input(layer: Layer) -> bool:
    """Return whether a gradient needs what the layer reads; one of a product with a mere number does not."""
    is_scale = layer.op in TIMES and layer.input_elements <= layer.output_elements and not layer.num_parameters
    return layer.op in KEEPS_INPUT and not is_scale


def _read_bytes(reader: Layer, written: float, number: Precision) -> float:
    if reader.op in PRODUCTS:
        return number.activation_bytes
    return number.weight_bytes if reader.op in WIDE else written


def _fixed_bytes(layer: Layer) -> float:
    if layer.kept_bytes is not None:
        return layer.kept_bytes
    known = layer.shape or layer.op != "pooling"
    return FIXED_BYTES.get(layer.op, 0.0) * layer.output_elements if known else 0.0


def _factor_bytes(model: Model, index: int, outputs: Sequence[float], written: float, number: Precision) -> float:
    """Return the bytes of what a layer multiplies by, where nobody keeps that already in one of the `outputs` so far.

    An `lrn` keeps the squares, and in fp32 their mean and its power; an activation that gates the other half of its
    input keeps what it multiplies that with. The second factor of a product of two activations is taken to be the
    output of the nearest layer above that is as large.
    """
    layer = model.layers[index]
    if layer.op == "lrn":
        return layer.output_elements * (number.activation_bytes + 2 * number.weight_bytes)
    if layer.op in GATES and layer.input_elements == 2 * layer.output_elements:
        return layer.output_elements * written
    if layer.op not in TIMES or not index:
        return 0.0
    other = layer.input_elements - model.layers[index - 1].output_elements
    above = next((at for at in reversed(range(index - 1)) if model.layers[at].output_elements == other), None)
    return 0.0 if other <= 0 or (above is not None and outputs[above]) else other * written


def activation_bytes(model: Model, precision: str) -> float:
    """Return the bytes of one sample that are in memory when the backward pass begins, the sample itself included.

    Attention counts as the products, softmax and dropout that its layers say; a kernel that fuses them keeps less.
    """
    return entry_bytes(model, precision) + sum(kept_bytes(model, precision))


def entry_bytes(model: Model, precision: str, casts_all: bool = False) -> float:
    """Return the bytes of one sample that the first layer reads, and that stay for its gradient."""
    if not model.layers:
        return 0.0
    number, first = numbers_of(precision, casts_all), model.layers[0]
    return first.input_elements * _read_bytes(first, number.weight_bytes, number)


def weight_copy_bytes(model: Model, precision: str) -> float:
    """Return the bytes of the 16-bit copies of weights that autocast makes for products, and keeps for backward.

    A matrix that another layer owns has a copy of its own.
    """
    number = PRECISIONS[precision]
    if number.operand_bytes >= number.weight_bytes:
        return 0.0
    return number.operand_bytes * sum(_multiplied(layer) for layer in model.layers if layer.op in PRODUCTS)


def _multiplied(layer: Layer) -> float:
    """Return the weights that a product reads: its own, or those of an embedding; a second tower's are counted once."""
    is_tied = layer.op == "fully-connected" and not layer.num_parameters and not layer.weights_of and layer.shape
    sizes = ("inputs", "outputs", "count")
    return float(math.prod(layer.shape[size] for size in sizes) if is_tied else layer.num_parameters)


def passing_bytes(layers: Sequence[Layer], written: Sequence[float], kept: Sequence[float]) -> tuple[float, ...]:
    """Return the bytes of one sample that each layer's backward pass takes beyond all that was kept [num_layers].

    It reads the gradient of its output and writes that of its input, as wide as what it `written` forward, while what
    the layers after it `kept` is let go of already. So it is below zero where more was let go of.
    """
    later = np.cumsum([0.0, *reversed(kept)])[-2::-1].tolist()
    sizes = zip(layers, written, later, strict=True)
    return tuple((layer.output_elements + layer.input_elements) * size - gone for layer, size, gone in sizes)


def memory_per_gpu(
    model: Model,
    batch: int,
    precision: str,
    optimizer: OptimizerSpec,
    gradient_bytes: float | None = None,
    gradients_stay: bool = True,
) -> dict[str, float]:
    """Return the bytes one GPU holds in data-parallel training at the fullest moment, by what they are for.

    That is a layer's turn in the backward pass. Activations are what is kept of a batch by then, with the gradients
    that the layer reads and writes (`activation_bytes`, `passing_bytes`). Gradients of parameters are there whole where
    they stay from one iteration to the next, as in DistributedDataParallel's buckets; otherwise those made so far.
    Workspace is a buffer for algorithms, the context what CUDA itself takes, and slack what the allocator rounds up
    (`SLACK`). `gradient_bytes` is a gradient's size in memory, by default the precision's. A compressed model's weights
    take its `weight_share`; autocast's copies of weights (`weight_copy_bytes`) stand apart. Left out: gradients'
    communication buffers, and what a step over all parameters at once (`foreach`) holds, which is more than
    activations at small batches: as much as the parameters, for Adam.
    """
    number = PRECISIONS[precision]
    parameters = float(model.num_parameters)
    each = number.gradient_bytes if gradient_bytes is None else gradient_bytes
    gradients, activations = _fullest(model, batch, precision, each, gradients_stay)
    held = {
        "weights": parameters * model.weight_share * (number.weight_bytes + number.master_bytes),
        "gradients": gradients,
        "optimizer": parameters * optimizer.state_bytes_per_parameter,
        "activations": activations,
    }
    copies = weight_copy_bytes(model, precision)
    if copies:
        held["weight copies"] = copies
    slack = SLACK * sum(held.values())
    return {**held, "workspace": WORKSPACE_BYTES, "context": CONTEXT_BYTES, "slack": slack}


def _fullest(model: Model, batch: int, precision: str, each: float, stay: bool) -> tuple[float, float]:
    """Return the bytes of parameters' gradients and of activations at a backward pass's fullest moment."""
    kept = kept_bytes(model, precision)
    passing = passing_bytes(model.layers, written_bytes(model, PRECISIONS[precision]), kept)
    total = entry_bytes(model, precision) + sum(kept)
    parameters = [float(layer.num_parameters) for layer in model.layers]
    made = [sum(parameters)] * len(parameters) if stay else np.cumsum(parameters[::-1])[::-1].tolist()
    moments = ((num * each, batch * (total + more)) for num, more in zip(made, passing, strict=True))
    return max(moments, key=sum, default=(0.0, 0.0))


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
