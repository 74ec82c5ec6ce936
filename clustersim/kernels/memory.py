"""Memory of one GPU: weights, gradients, optimizer state, activations kept for backward, workspace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.model.layer import Layer, Model
from clustersim.model.layer_schema import SCANS
from clustersim.model.precision import PRECISIONS, Precision
from clustersim.units import format_size

WORKSPACE_BYTES = 64 * 1024.0**2
"""Workspace of convolutions. Assumed: between the 8 MiB that Caffe allows an algorithm (cudnn_conv_layer.cpp)
and MXNet's default of 1 GiB (Convolution's workspace).
"""

SLACK = 0.02
"""Share by which PyTorch's caching allocator rounds up: blocks of 512 bytes, segments of 2 MiB and more
(c10/cuda/CUDACachingAllocator.cpp). Assumed: no published figure was found.
"""

CONTEXT_BYTES = 426 * 1024.0**2
"""The CUDA context, its kernels and the libraries' handles: the memory that an idle PyTorch 2.10 uses on an RTX 6000
Ada (unslothai/unsloth-zoo, pull request 1053); "around 400MB" since CUDA 11.7 loads kernels lazily, and more than 1 GB
before (pytorch/pytorch, issues 109888 and 107667).
"""

LOSS_BYTES = 4.0
"""Bytes of an element that a loss over classes or a vocabulary reads and writes: fp32 even where layers compute in 16
bits (Korthikanti et al., arXiv:2205.05198, section 4.3; `output.float()` in Megatron-LM and torchtitan).
"""

# Gradients need the input of some layers and the output of others (PyTorch, tools/autograd/derivatives.yaml).
PRODUCTS = frozenset(
    {
        *("convolution", "transposed-convolution", "locally-connected", "transposed-locally-connected"),
        *("fully-connected", "experts", "matmul", "lstm", "gru", "rnn"),
    }
)
NORMS = frozenset({"batch-norm", "instance-norm", "group-norm", "layer-norm", "rms-norm", "lrn"})
GATES = frozenset({"gelu", "silu", "mish", "hardswish", "elu", "leaky-relu", "prelu", "softplus"})
TIMES = frozenset({"multiply", "divide"})
KEEPS_INPUT = PRODUCTS | NORMS | GATES | TIMES | {"pooling", *SCANS}
KEEPS_OUTPUT = frozenset(
    {"relu", "softmax", "log-softmax", "sigmoid", "tanh", "exp", "sqrt", "lstm", "gru", "rnn", "loss"}
)
FIXED_BYTES = {"dropout": 1.0, "pooling": 8.0}  # per output element: a mask; each maximum's position, an int64
WIDE = frozenset({"group-norm", "layer-norm", "softmax", "log-softmax", "exp", "softplus", "loss"})
"""Operations that CUDA's autocast computes in fp32, whatever their input (docs of torch.amp, 'CUDA Ops that can
autocast to float32'). It computes GEMMs in 16 bits; all other operations use the format of their input.
"""


@lru_cache(maxsize=64)
def layer_precision(precision: str, casts_all: bool = False) -> Precision:
    """Return the formats that layers read and write; with `casts_all` all of them have the width of a GEMM's operands.

    That is the case where the model itself is cast, instead of autocast at each operation: in Megatron-LM
    (`Float16Module`), DeepSpeed (`module.half()`, `.bfloat16()`) and FSDP (`MixedPrecision(param_dtype=...)`).
    """
    number = PRECISIONS[precision]
    return replace(number, weight_bytes=number.activation_bytes) if casts_all else number


@cached_by_identity(64)
def written_bytes(model: Model, number: Precision) -> tuple[float, ...]:
    """Return the bytes of one element of each layer's output.

    Without autocast, those of an activation, and `LOSS_BYTES` for a loss. With autocast GEMMs write 16 bits, and
    operations that are safer in fp32 write fp32 (`WIDE`, a table's rows, an `lrn` because of its power); others write
    the format that they read. An addition writes the wider of the outputs of the layer before it and of the addition
    before that (at first, the first layer), or of its own parameters.
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


@cached_by_identity(64)
def kept_bytes(
    model: Model, precision: str, casts_all: bool = False, narrow: frozenset[str] = frozenset()
) -> tuple[float, ...]:
    """Return the bytes of one sample that each layer keeps in memory for the backward pass.

    That is its output, if its own gradient or that of the next layer needs it, plus masks and positions, whose size
    does not depend on precision, and factors. A GEMM under autocast keeps the 16-bit copy that it reads. A layer that
    is overwritten in place (by an activation, or by a residual connection before one) keeps nothing. Of branches only
    the next layer in the list is considered, and it reads an output if that is no larger than its input. Layers whose
    names are in `narrow` store their input in MXFP8 or NVFP4 (`narrow_inputs`).
    """
    number = layer_precision(precision, casts_all or model.is_frozen)
    written = written_bytes(model, number)
    outputs: list[float] = []
    kept: list[float] = []
    for index, layer in enumerate(model.layers):
        reader = model.layers[index + 1] if index + 1 < len(model.layers) else None
        own = {written[index]} if layer.op in KEEPS_OUTPUT else set()
        if reader is not None and _keeps_input(reader) and _reads(reader, layer):
            stored = number.stored_bytes if reader.name in narrow else 0.0
            own.add(stored or _read_bytes(reader, written[index], number))
        beside = _fixed_bytes(layer) + _factor_bytes(model, index, outputs, written[index], number)
        outputs.append(layer.output_elements * sum(own))
        kept.append(outputs[-1] + beside)
    return tuple(kept)


def _reads(reader: Layer, layer: Layer) -> bool:
    """Return whether an output is no larger than the next layer's input; a matmul reads two of query, key and value.

    A product behind a sum of its adapters reads what these read.
    """
    if layer.op == "adapter-sum":
        return not reader.is_frozen and layer.output_elements <= reader.input_elements
    return reader.input_elements >= layer.output_elements or reader.op == "matmul"


def _keeps_input(layer: Layer) -> bool:
    """Return whether a gradient needs the layer's input; that of a multiplication by a scalar does not."""
    is_scale = layer.op in TIMES and layer.input_elements <= layer.output_elements and not layer.num_parameters
    is_fixed = layer.is_frozen and layer.op in PRODUCTS  # needs its weights alone
    return layer.op in KEEPS_INPUT and not is_scale and not is_fixed


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
    """Return the bytes of a layer's factors that are not already kept in one of the `outputs` so far.

    An `lrn` keeps the squares, and in fp32 their mean and its power. A gated activation keeps the other half of its
    input, by which it multiplies. The second factor of a product of two activations is assumed to be the output of the
    nearest layer above of the same size.
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
    """Return the bytes of one sample that are in memory when the backward pass begins, including the sample itself.

    Attention counts as the GEMMs, softmax and dropout of its layers; a fused kernel keeps less.
    """
    return entry_bytes(model, precision) + sum(kept_bytes(model, precision))


def entry_bytes(model: Model, precision: str, casts_all: bool = False) -> float:
    """Return the bytes of one sample that the first layer reads, and that stay for its gradient."""
    if not model.layers:
        return 0.0
    number, first = layer_precision(precision, casts_all or model.is_frozen), model.layers[0]
    return first.input_elements * _read_bytes(first, number.weight_bytes, number)


def weight_copy_bytes(model: Model, precision: str) -> float:
    """Return the bytes of the 16-bit copies of weights that autocast makes for GEMMs, and keeps for backward.

    A matrix that another layer owns has a separate copy, and frozen ones have none: they are stored as they are read.
    """
    number = PRECISIONS[precision]
    if number.operand_bytes >= number.weight_bytes:
        return 0.0
    return number.operand_bytes * sum(_multiplied(layer) for layer in model.layers if layer.op in PRODUCTS)


def _multiplied(layer: Layer) -> float:
    """Return the weights that a GEMM reads: its own, or an embedding's; a second tower adds none."""
    if layer.is_frozen:
        return 0.0
    is_tied = layer.op == "fully-connected" and not layer.num_parameters and not layer.weights_of and layer.shape
    sizes = ("inputs", "outputs", "count")
    return float(math.prod(layer.shape[size] for size in sizes) if is_tied else layer.num_parameters)


def passing_bytes(layers: Sequence[Layer], written: Sequence[float], kept: Sequence[float]) -> tuple[float, ...]:
    """Return the bytes of one sample that each layer's backward pass adds to all kept activations [num_layers].

    It reads the gradient of its output and writes that of its input, in the width that it has `written` forward, while
    the `kept` activations of the layers after it are already freed. The result is negative where more was freed.
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
    narrow: frozenset[str] = frozenset(),
) -> dict[str, float]:
    """Return the peak memory of one GPU in data-parallel training, in bytes by purpose.

    The peak is during one layer's backward pass. Activations are those kept at that time, with the gradients that the
    layer reads and writes (`activation_bytes`, `passing_bytes`). Gradients of parameters count in full where they stay
    from one iteration to the next, as in DistributedDataParallel's buckets; otherwise those computed so far. Workspace
    is a buffer for algorithms, the context is CUDA's own memory, and slack is the allocator's rounding (`SLACK`).
    `gradient_bytes` is a gradient's size in memory, by default the precision's. A compressed model's weights take their
    `weight_share`; autocast's copies of weights (`weight_copy_bytes`) are listed separately. Left out: communication
    buffers of gradients, and the temporary memory of an update of all parameters at once (`foreach`), which is more
    than activations at small batches: as much as the parameters, for Adam.
    """
    number = PRECISIONS[precision]
    parameters = float(model.num_parameters)
    each = number.gradient_bytes if gradient_bytes is None else gradient_bytes
    gradients, activations = _fullest(model, batch, precision, each, gradients_stay, narrow)
    held = {
        "weights": parameters * model.weight_share * (number.weight_bytes + number.master_bytes),
        "gradients": gradients,
        "optimizer": optimizer.state_bytes(model.layers),
        "activations": activations,
    }
    copies = weight_copy_bytes(model, precision)
    if copies:
        held["weight copies"] = copies
    if model.is_frozen:
        held["frozen weights"] = model.frozen_bytes
    slack = SLACK * sum(held.values())
    return {**held, "workspace": WORKSPACE_BYTES, "context": CONTEXT_BYTES, "slack": slack}


def _fullest(
    model: Model, batch: int, precision: str, each: float, stay: bool, narrow: frozenset[str]
) -> tuple[float, float]:
    """Return the bytes of parameters' gradients and of activations at the peak of a backward pass."""
    kept = kept_bytes(model, precision, narrow=narrow)
    passing = passing_bytes(model.layers, written_bytes(model, layer_precision(precision, model.is_frozen)), kept)
    total = entry_bytes(model, precision) + sum(kept)
    parameters = [float(layer.num_parameters) for layer in model.layers]
    made = [sum(parameters)] * len(parameters) if stay else np.cumsum(parameters[::-1])[::-1].tolist()
    moments = ((num * each, batch * (total + more)) for num, more in zip(made, passing, strict=True))
    return max(moments, key=sum, default=(0.0, 0.0))


def memory_overflow(memory_bytes: Mapping[str, float], gpu: Gpu) -> str | None:
    """Return a sentence on how much memory a plan lacks, with the full sum; None where it fits."""
    total = sum(memory_bytes.values())
    if total <= gpu.memory_bytes:
        return None
    parts = " + ".join(f"{name} {format_size(size)}" for name, size in memory_bytes.items())
    return (
        f"one {gpu.name} holds {format_size(gpu.memory_bytes)}, and this needs {format_size(total)}: {parts}; "
        "use a smaller batch per GPU, a GPU with more memory, or memory_check: false to run it all the same"
    )


def check_memory(memory_bytes: Mapping[str, float], gpu: Gpu) -> None:
    """Refuse a plan that does not fit on the GPU; the message has the full sum."""
    sentence = memory_overflow(memory_bytes, gpu)
    if sentence:
        raise InputError(memory_lack(sentence, None, sum(memory_bytes.values()), gpu.memory_bytes))


def memory_lack(
    message: str, key: str | None, needed_bytes: float, available_bytes: float, remedy: str | None = None
) -> Mistake:
    """Return the mistake that a training takes more memory than there is, at a key of the scenario."""
    return Mistake(
        message,
        key,
        got=format_size(needed_bytes),
        allowed=f"at most {format_size(available_bytes)}",
        needed_bytes=needed_bytes,
        available_bytes=available_bytes,
        remedy=remedy,
    )
