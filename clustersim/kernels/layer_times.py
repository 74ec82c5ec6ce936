"""Estimated seconds of every layer of a model on a GPU, from shapes, batch and the device sheet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Literal, NamedTuple, get_args

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.convolution_kernels import DEPTHWISE_SHARE, convolution_gemms, im2col_gemms, is_depthwise
from clustersim.kernels.fused_attention import CUDNN, fused_attention_gemms, is_fused
from clustersim.kernels.gemm_derating import derated_constants, gemm_derating
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.kernels.kernel_constants import KernelConstants, Traffic, constants_of
from clustersim.kernels.kernel_model import (
    PHASES,
    Gemm,
    GpuRates,
    Phase,
    attention_gemms,
    linear_gemms,
    rates_of,
    recurrent_gemms,
)
from clustersim.kernels.locally_connected import locally_connected_gemms, transposed_locally_connected_gemms
from clustersim.kernels.measured_tables import KernelSource, Product, kernel_seconds
from clustersim.kernels.narrow_gemms import narrow_gemm, narrow_layers, narrow_share
from clustersim.kernels.programs.channels_last import (
    NO_PASS,
    Fused,
    Layout,
    constants_in,
    fused_norms,
    refuse_layout,
    with_term,
)
from clustersim.kernels.programs.encoder_kernels import (
    ENCODER_LIBRARIES,
    ExtraBytes,
    access_bytes,
    encoder_extra_bytes,
    encoder_traffic,
)
from clustersim.kernels.programs.language_models import EXTRA_BYTES, TRAFFIC, sequence_transposes
from clustersim.kernels.programs.residual_dropout import drops_in_sums, sum_traffic
from clustersim.kernels.programs.unsupported import refuse_unsupported
from clustersim.model.casts import TORCHAO, Casts
from clustersim.model.layer import Layer, LayerTime, Model
from clustersim.model.layer_schema import SCANS
from clustersim.model.precision import PRECISIONS, Precision, precision_on

Library = Literal[
    "cudnn",
    "cudnn-fused",
    "cudnn-turned",
    "diffusers-2023",
    "eager",
    "eager-2020",
    "fms",
    "huggingface-2021",
    "huggingface-2021-autocast",
    "huggingface-2023",
    "internlm",
    "megatron",
    "megatron-2023",
    "megatron-deepspeed",
    "mlperf-gnmt",
    "nemo-2023",
    "nemo-2023-autocast",
    "nvidia-gnmt",
    "xla",
    "unrolled",
]
WIDENING_SHARE = 0.256
"""Share of the memory rate at which a kernel widens weights of 4 bits (`adapters`): Llama 2 7B on an A100 of 40 GB
takes 79, 86 and 85 ms longer with bitsandbytes 0.41.1 than in 16 bits (Lightning-AI/litgpt,
tutorials/resource-tables.md, commit 4839345a, three scripts); their geometric mean. By it Llama 2 13B takes 15 % less
of this time than measured there, and StableLM 3B 4 % less to 19 % more. Other GPUs are assumed to have this share.
"""

LIBRARIES = dict.fromkeys(get_args(Library), convolution_gemms) | {"unrolled": im2col_gemms}

_NAMES = ("name", "branch", "weights_of", "adapts")
_sizes = attrgetter(*(each.name for each in fields(Layer) if each.name not in (*_NAMES, "shape")))

_ONE_PASS = Traffic(input=1.0, output=1.0)
_TWO_PASSES = Traffic(input=2.0, output=1.0)


class Estimate(NamedTuple):
    """Layer times, and their assumptions as sentences."""

    layers: tuple[LayerTime, ...]
    assumptions: tuple[str, ...]


@cached_by_identity(64)
def estimate_layers(
    model: Model,
    gpu: Gpu,
    batch: int,
    precision: str,
    *,
    library: Library = "cudnn",
    layout: Layout = "nchw",
    casts: Casts = TORCHAO,
    casts_back: bool = True,
    kernels: KernelSource = "law",
) -> Estimate:
    """Return every layer's seconds for a batch by the kernel model, marked `estimated`.

    With `kernels` from `measured_tables`, layers whose kernels are all measured are marked `measured`.

    GEMMs and convolutions take the time of the fastest algorithm that the `library` has (`kernel_model`,
    `convolution_kernels`). Every other layer takes the time of the bytes it moves at the memory rate of its generation
    of kernels, plus a launch. NHWC images (`layout`)
    are not transposed around convolutions. Batch norms of `cudnn-fused` include the sum and the ReLU behind them, which
    then have no time and are not issued; those of `cudnn-turned` are transposed (`channels_last`). `casts_back` says
    that gradients of 16 bits are cast for fp32 weights (`encoder_kernels`).
    """
    if batch < 1:
        raise InputError(f"a batch has at least one sample (got {batch})", got=str(batch), allowed="1 or more")
    formats = precision_on(gpu, precision)
    refuse_layout(model, formats, layout, library)
    refuse_unsupported(model, formats, library)
    constants = constants_in(layout, constants_of(gpu, formats.units), formats, library)
    narrow = narrow_layers(model.layers, precision, casts)
    kinds, fused = _kinds(model, library == "cudnn-fused", precision, casts)
    rates = rates_of(gpu, precision_on(gpu, formats.base or precision).name)
    summed = sum_traffic(formats, library) if drops_in_sums(model.layers, library) else None
    gain = gpu.flop_per_s[precision] / rates.flop_per_s
    share = narrow_share(constants, precision)
    firsts = list(dict.fromkeys(kinds))
    products: list[Product] = []
    owners: list[tuple[int, int]] = []
    for index in firsts:
        layer = model.layers[index]
        for phase_index, phase in enumerate(PHASES):
            found = _gemms(layer, batch, phase, constants, formats, library)
            if narrow[index]:
                found = [narrow_gemm(gemm, layer, phase, batch, gain, share, casts, precision) for gemm in found]
            products += [Product(gemm, layer, phase, precision if narrow[index] else "") for gemm in found]
            owners += [(index, phase_index)] * len(found)
    best: dict[tuple[int, int], float] = {}
    timed = kernel_seconds(kernels, products, batch, gpu, formats, _flash(library), rates, constants)
    measured = timed.measured_layers([index for index, _ in owners])
    for owner, seconds in zip(owners, timed.seconds.tolist(), strict=True):
        best[owner] = min(seconds, best.get(owner, seconds))
    trained = derated_constants(constants)
    of_kind = {
        index: _layer_time(
            model.layers[index],
            [best.get((index, phase)) for phase in range(3)],
            *(batch, rates, trained, formats, library, fused[index], summed, casts_back),
        )
        for index in firsts
    }
    of_kind |= {index: of_kind[index].scaled(1.0, "measured") for index in measured}
    layers = tuple(_of_layer(layer, of_kind[kind]) for layer, kind in zip(model.layers, kinds, strict=True))
    assumptions = (
        *timed.assumptions([index for index, _ in owners], kinds),
        *_assumptions(model, gpu, precision, constants),
        *_of_layout(gpu, layout),
    )
    return Estimate(layers, assumptions)


@cached_by_identity(64)
def _kinds(model: Model, fuses: bool, precision: str, casts: Casts) -> tuple[tuple[int, ...], tuple[Fused, ...]]:
    """Return for each layer the index of the first one with the same time [num_layers], since blocks repeat.

    Also return the role of each layer in a fused batch norm [num_layers], where these are fused.
    """
    layers, first, kinds = model.layers, dict[Hashable, int](), []
    fused: Sequence[Fused] = fused_norms(layers) if fuses else [""] * len(layers)
    narrow = narrow_layers(layers, precision, casts)
    for index, layer in enumerate(layers):
        kind = *_sizes(layer), tuple(layer.shape.items()), narrow[index], fused[index]
        kinds.append(first.setdefault(kind, index))
    return tuple(kinds), tuple(fused)


def _of_layer(layer: Layer, time: LayerTime) -> LayerTime:
    """Return the times of a layer, given those of a layer of the same kind."""
    if time.layer is layer:
        return time
    return LayerTime(layer, time.forward_s, time.backward_data_s, time.backward_weights_s, time.provenance)


def _gemms(
    layer: Layer,
    batch: int,
    phase: Phase,
    constants: KernelConstants,
    formats: Precision,
    library: Library,
) -> list[Gemm]:
    """Return the candidate kernels of one phase of a layer; none where it is bound by memory or does nothing."""
    flop = {
        "forward": layer.flop,
        "backward_data": layer.flop_backward_data,
        "backward_weights": layer.flop_backward_weights,
    }[phase]
    if not flop:
        return []
    makers = {
        "convolution": LIBRARIES[library],
        "locally-connected": locally_connected_gemms,
        "transposed-locally-connected": transposed_locally_connected_gemms,
        **dict.fromkeys(("lstm", "gru", "rnn"), recurrent_gemms),
        "matmul": attention_gemms,
    }
    if not layer.shape:
        return []
    if is_fused(layer):
        return fused_attention_gemms(layer, batch, phase, constants, formats.operand_bytes, _flash(library))
    make, derating = makers.get(layer.op, linear_gemms), gemm_derating(layer, constants)
    found = make(layer.shape, batch, phase, constants, formats.operand_bytes)
    if layer.frozen_bytes:
        found = [_widened(gemm, layer, phase, constants, formats) for gemm in found]
    return found if derating == 1 else [replace(gemm, penalty=gemm.penalty / derating) for gemm in found]


def _widened(gemm: Gemm, layer: Layer, phase: Phase, constants: KernelConstants, formats: Precision) -> Gemm:
    """Return a product with the kernel that widens its frozen weights first, if they are stored in fewer bits."""
    weights = float(layer.shape["inputs"] * layer.shape["outputs"] * layer.shape["count"])
    stored, read = layer.frozen_bytes or 0.0, formats.operand_bytes * weights
    if layer.op not in ("fully-connected", "experts") or phase == "backward_weights" or stored >= read:
        return gemm
    moved = (stored + read) * constants.shape.memory_efficiency / WIDENING_SHARE
    return replace(gemm, layout_bytes=gemm.layout_bytes + moved, launches=gemm.launches + 1)


def _flash(library: Library) -> int:
    """Return the kernel of fused attention of a layer that does not name one."""
    return CUDNN if library == "megatron" else 2


def _layer_time(
    layer: Layer,
    found: Sequence[float | None],
    batch: int,
    rates: GpuRates,
    constants: KernelConstants,
    formats: Precision,
    library: Library,
    fused: Fused,
    summed: tuple[Traffic, Traffic] | None,
    casts_back: bool,
) -> LayerTime:
    """Return one layer's times: those of its kernels, or of the bytes and FLOP of an operation without a shape.

    `summed` is the traffic of residual sums where it differs from the library's other sums (`residual_dropout`).
    """
    if fused == "joined":
        return LayerTime(layer, 0.0, 0.0, 0.0, "estimated")
    traffic = constants.element_wise.get(layer.op, (_ONE_PASS, _TWO_PASSES))
    if library in TRAFFIC:
        traffic = (summed if layer.op == "add" else None) or TRAFFIC[library](layer, formats) or traffic
    if fused == "adds":
        traffic = with_term(traffic)
    extra = EXTRA_BYTES[library](layer, formats) if library in EXTRA_BYTES else ExtraBytes()
    size = formats.activation_bytes
    transposes = sequence_transposes(layer, formats, library, batch)
    if library in ENCODER_LIBRARIES:
        size = access_bytes(layer, formats)
        traffic = encoder_traffic(layer, library) or traffic
        extra = encoder_extra_bytes(layer, formats, library, casts_back)
    memory_rate = constants.memory_efficiency * rates.memory_bytes_per_s
    window = float(layer.shape.get("kernel_h", 1) * layer.shape.get("kernel_w", 1))

    def moved(phase: int) -> float:
        elements = traffic[phase].elements(layer.input_elements, layer.output_elements, window)
        return elements * size * batch / memory_rate

    def computed(flop: float) -> float:
        return flop * batch / (constants.efficiency["matmul_forward"] * rates.flop_per_s)

    forward, data, weights = found
    if layer.flop and layer.shape:
        forward_s = (forward or 0.0) + (
            batch * (extra.forward + transposes.forward) + extra.weights_forward
        ) / memory_rate
        data_s = (data or 0.0) + batch * (extra.backward_data + transposes.backward_data) / memory_rate
        weights_s = (weights or 0.0) + (batch * extra.backward_weights + extra.weights_backward) / memory_rate
        return LayerTime(layer, forward_s, data_s, weights_s, "estimated")
    forward_s = max(moved(0), computed(layer.flop)) + rates.launch_s
    data_s = max(moved(1), computed(layer.flop_backward_data)) + rates.launch_s
    if layer.is_frozen and layer.op == "embedding":
        data_s = 0.0
    weights_s = computed(layer.flop_backward_weights) + rates.launch_s if layer.flop_backward_weights else 0.0
    return LayerTime(layer, forward_s, data_s, weights_s, "estimated")


def _of_layout(gpu: Gpu, layout: Layout) -> tuple[str, ...]:
    """Return the sentence that NHWC changes nothing, where the chip's kernels transpose nothing."""
    if layout == "nchw" or constants_of(gpu, "tensor").shape.layout_passes > NO_PASS:
        return ()
    return (
        f"Convolutions on {gpu.name} are assumed to take as long with channels last as with channels first, except a "
        f"first layer of stride 2: the constants for {gpu.architecture} do not separate cuDNN's transposes from its "
        "kernels.",
    )


def _assumptions(model: Model, gpu: Gpu, precision: str, constants: KernelConstants) -> tuple[str, ...]:
    sentences = [
        f"Layer times of {model.name} on {gpu.name} in {precision} are estimated from kernel shapes "
        f"(constants: {constants.source})."
    ]
    if PRECISIONS[precision].base:
        name = {"amp-fp8": "FP8", "amp-mxfp8": "MXFP8", "amp-nvfp4": "NVFP4"}[precision]
        sentences.append(
            f"GEMMs in {name} are assumed to reach {narrow_share(constants, precision):.0%} of the share of peak that "
            "GEMMs in 16 bits reach."
        )
    scans = [layer.name for layer in model.layers if layer.op in SCANS]
    if scans:
        sentences.append(
            f"{len(scans)} scans and convolutions along the tokens (such as '{scans[0]}') are fused kernels: they take "
            "the time of their bytes, or of their FLOP at the rate of a large GEMM where that is more."
        )
    depthwise = [layer.name for layer in model.layers if layer.op == "convolution" and is_depthwise(layer.shape)]
    if depthwise:
        sentences.append(
            f"{len(depthwise)} depthwise convolutions (such as '{depthwise[0]}') are assumed to reach "
            f"{DEPTHWISE_SHARE:.0%} of the ordinary units' peak."
        )
    unshaped = [layer.name for layer in model.layers if layer.flop > 0 and not layer.shape and layer.op not in SCANS]
    if unshaped:
        sentences.append(
            f"{len(unshaped)} layers give FLOP without a shape (such as '{unshaped[0]}'): "
            "they run at the rate of a large GEMM at any batch."
        )
    return tuple(sentences)
