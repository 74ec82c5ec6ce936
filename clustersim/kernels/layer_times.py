"""Seconds of every layer of a model on a GPU, estimated from shapes, batch and the device's sheet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Literal, NamedTuple, get_args

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.convolution_kernels import convolution_products, unrolled_products
from clustersim.kernels.eight_bits import PEAK_SHARE, eight_bit_product, in_eight_bits
from clustersim.kernels.fused_attention import CUDNN, fused_products, is_fused
from clustersim.kernels.gemm_derating import gemm_derating, in_training
from clustersim.kernels.kernel_constants import KernelConstants, Traffic, constants_of
from clustersim.kernels.kernel_model import (
    PHASES,
    Phase,
    Product,
    Rates,
    attention_products,
    matmul_products,
    product_seconds,
    rates_of,
    recurrent_products,
)
from clustersim.kernels.local_kernels import local_products, transposed_local_products
from clustersim.kernels.memo import once
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
    Around,
    around_products,
    encoder_traffic,
    number_bytes,
)
from clustersim.kernels.programs.language_models import AROUND, TRAFFIC, turned_over
from clustersim.kernels.programs.not_counted import refuse_uncounted
from clustersim.kernels.programs.residual_dropout import drops_in_sums, sum_traffic
from clustersim.model.casts import TORCHAO, Casts
from clustersim.model.layer import Layer, LayerTime, Model
from clustersim.model.precision import PRECISIONS, Precision, precision_on

OPERATOR_S = 10e-6
"""What a framework's thread takes to issue one operator. Assumed: eager PyTorch on a current host, whose sums, products
and softmaxes were since timed at 8 to 10 us on an A100 (flagos-ai/Torch-FL, benchmarks/README.md). One that waits for
each operator before it issues the next leaves longer gaps: MXNet's ResNet-50 on a V100 took 17 ms longer an
iteration than its kernels are estimated to take, at every batch from 1 to 8."""

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
LIBRARIES = dict.fromkeys(get_args(Library), convolution_products) | {"unrolled": unrolled_products}

_NAMES = ("name", "branch", "weights_of")
_sizes = attrgetter(*(each.name for each in fields(Layer) if each.name not in (*_NAMES, "shape")))

_ONE_PASS = Traffic(input=1.0, output=1.0)
_TWO_PASSES = Traffic(input=2.0, output=1.0)


class Estimate(NamedTuple):
    """Layer times, and the sentences that say what they stand on."""

    layers: tuple[LayerTime, ...]
    assumptions: tuple[str, ...]


@once(64)
def estimate_layers(
    model: Model,
    gpu: Gpu,
    batch: int,
    precision: str,
    *,
    library: Library = "cudnn",
    layout: Layout = "nchw",
    operator_s: float = OPERATOR_S,
    casts: Casts = TORCHAO,
    casts_back: bool = True,
) -> Estimate:
    """Return every layer's seconds for a batch by the kernel model, all marked `estimated`.

    Products and convolutions take the time of the quickest algorithm that the `library` has (`kernel_model`,
    `convolution_kernels`), everything else the time of the bytes it moves at the memory rate its generation of
    kernels reaches, plus a launch. A layer waits until the framework's thread has issued it (`as_issued`). Images that
    lie channels last (`layout`) are not turned over around convolutions; `cudnn-fused` batch norms take along what is
    behind them, which has no time of its own and is not issued, and those of `cudnn-turned` are turned over
    (`channels_last`). `casts_back` says that gradients of 16 bits are cast for fp32 weights (`encoder_kernels`).
    """
    if batch < 1:
        raise InputError(f"a batch has at least one sample (got {batch})", got=str(batch), allowed="1 or more")
    number = precision_on(gpu, precision)
    refuse_layout(model, number, layout, library)
    refuse_uncounted(model, number, library)
    constants = constants_in(layout, constants_of(gpu, number.units), number, library)
    kinds, fused = _kinds(model, library == "cudnn-fused", casts)
    rates = rates_of(gpu, precision_on(gpu, number.beside or precision).name)
    summed = sum_traffic(number, library) if drops_in_sums(model.layers, library) else None
    gain = gpu.flop_per_s[precision] / rates.flop_per_s
    firsts = list(dict.fromkeys(kinds))
    products: list[Product] = []
    owners: list[tuple[int, int]] = []
    for index in firsts:
        layer, reader = model.layers[index], model.layers[index + 1] if index + 1 < len(model.layers) else None
        for phase_index, phase in enumerate(PHASES):
            found = _products(layer, batch, phase, constants, number, library)
            if number.beside and in_eight_bits(layer, reader, casts):
                found = [eight_bit_product(product, layer, phase, batch, gain, casts) for product in found]
            products += found
            owners += [(index, phase_index)] * len(found)
    best: dict[tuple[int, int], float] = {}
    for owner, seconds in zip(owners, product_seconds(products, rates, constants).tolist(), strict=True):
        best[owner] = min(seconds, best.get(owner, seconds))
    trained = in_training(constants)
    of_kind = {
        index: _layer_time(
            model.layers[index],
            [best.get((index, phase)) for phase in range(3)],
            *(batch, rates, trained, number, library, fused[index], summed, casts_back),
        )
        for index in firsts
    }
    layers = tuple(_of_layer(layer, of_kind[kind]) for layer, kind in zip(model.layers, kinds, strict=True))
    issue = [(0.0, 0.0) if each == "joined" else (operator_s, operator_s) for each in fused]
    told = _assumptions(model, gpu, precision, constants) + _of_layout(gpu, layout)
    return Estimate(as_issued(layers, issue), told)


@once(64)
def _kinds(model: Model, fuses: bool, casts: Casts) -> tuple[tuple[int, ...], tuple[Fused, ...]]:
    """Return for each layer the number of the first one that takes the same time [num_layers]: blocks repeat.

    And how each is part of a fused batch norm [num_layers], where these are fused.
    """
    layers, first, kinds = model.layers, dict[Hashable, int](), []
    fused: Sequence[Fused] = fused_norms(layers) if fuses else [""] * len(layers)
    for number, (layer, reader) in enumerate(zip(layers, (*layers[1:], None), strict=True)):
        kind = *_sizes(layer), tuple(layer.shape.items()), in_eight_bits(layer, reader, casts), fused[number]
        kinds.append(first.setdefault(kind, number))
    return tuple(kinds), tuple(fused)


def _of_layer(layer: Layer, time: LayerTime) -> LayerTime:
    """Return the times of a layer, which are those of one of its kind."""
    if time.layer is layer:
        return time
    return LayerTime(layer, time.forward_s, time.backward_data_s, time.backward_weights_s, time.provenance)


def as_issued(layers: Sequence[LayerTime], operator_s: float | Sequence[tuple[float, float]]) -> tuple[LayerTime, ...]:
    """Return layer times with the gaps in which a GPU waits for the thread that issues its operators.

    The thread issues one operator each `operator_s`, or in as long as was measured of each layer, forward and backward,
    and runs ahead of the GPU where it can: forward, and then backward from the last layer on, an operator ends at
    max(end of the one before, when it was issued) + its own time. An iteration of short kernels takes the thread's
    time, one of long kernels the GPU's. A gap before a backward pass goes to the gradient of data, or to that of
    weights where it is alone.
    """
    each = [(operator_s, operator_s)] * len(layers) if isinstance(operator_s, float | int) else operator_s
    end, issued, gaps = 0.0, 0.0, []
    order = [layer.forward_s for layer in layers] + [layer.backward_s for layer in reversed(layers)]
    for seconds, issue_s in zip(order, [*(f for f, _ in each), *(b for _, b in reversed(each))], strict=True):
        gaps.append(max(0.0, issued - end))
        end += gaps[-1] + seconds
        issued += issue_s
    count = len(layers)
    return tuple(
        _with_gaps(layer, forward_gap, backward_gap)
        for layer, forward_gap, backward_gap in zip(layers, gaps[:count], reversed(gaps[count:]), strict=True)
    )


def _with_gaps(layer: LayerTime, forward_gap: float, backward_gap: float) -> LayerTime:
    if not forward_gap and not backward_gap:
        return layer
    alone = layer.backward_weights_s and not layer.backward_data_s
    return LayerTime(
        layer.layer,
        layer.forward_s + forward_gap,
        layer.backward_data_s + (0.0 if alone else backward_gap),
        layer.backward_weights_s + (backward_gap if alone else 0.0),
        layer.provenance,
    )


def _products(
    layer: Layer,
    batch: int,
    phase: Phase,
    constants: KernelConstants,
    number: Precision,
    library: Library,
) -> list[Product]:
    """Return the kernels that could do one phase of a layer; none where it is bound by memory or does nothing."""
    flop = {
        "forward": layer.flop,
        "backward_data": layer.flop_backward_data,
        "backward_weights": layer.flop_backward_weights,
    }[phase]
    if not flop:
        return []
    makers = {
        "convolution": LIBRARIES[library],
        "locally-connected": local_products,
        "transposed-locally-connected": transposed_local_products,
        **dict.fromkeys(("lstm", "gru", "rnn"), recurrent_products),
        "matmul": attention_products,
    }
    if not layer.shape:
        return []
    if is_fused(layer):
        flash = CUDNN if library == "megatron" else 2
        return fused_products(layer, batch, phase, constants, number.operand_bytes, flash)
    make, share = makers.get(layer.op, matmul_products), gemm_derating(layer, constants)
    found = make(layer.shape, batch, phase, constants, number.operand_bytes)
    return found if share == 1 else [replace(product, penalty=product.penalty / share) for product in found]


def _layer_time(
    layer: Layer,
    found: Sequence[float | None],
    batch: int,
    rates: Rates,
    constants: KernelConstants,
    number: Precision,
    library: Library,
    fused: Fused,
    summed: tuple[Traffic, Traffic] | None,
    casts_back: bool,
) -> LayerTime:
    """Return one layer's times: what its kernels take, or the bytes and FLOP of an operation without a shape.

    `summed` is what residual sums move where they are not as others of the library (`residual_dropout`).
    """
    if fused == "joined":
        return LayerTime(layer, 0.0, 0.0, 0.0, "estimated")
    traffic = constants.element_wise.get(layer.op, (_ONE_PASS, _TWO_PASSES))
    if library in TRAFFIC:
        traffic = (summed if layer.op == "add" else None) or TRAFFIC[library](layer, number) or traffic
    if fused == "adds":
        traffic = with_term(traffic)
    around, size = AROUND[library](layer, number) if library in AROUND else Around(), number.activation_bytes
    turned = turned_over(layer, number, library, batch)
    if library in ENCODER_LIBRARIES:
        size = number_bytes(layer, number)
        traffic = encoder_traffic(layer, library) or traffic
        around = around_products(layer, number, library, casts_back)
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
            batch * (around.forward + turned.forward) + around.weights_forward
        ) / memory_rate
        data_s = (data or 0.0) + batch * (around.backward_data + turned.backward_data) / memory_rate
        weights_s = (weights or 0.0) + (batch * around.backward_weights + around.weights_backward) / memory_rate
        return LayerTime(layer, forward_s, data_s, weights_s, "estimated")
    forward_s = max(moved(0), computed(layer.flop)) + rates.launch_s
    data_s = max(moved(1), computed(layer.flop_backward_data)) + rates.launch_s
    weights_s = computed(layer.flop_backward_weights) + rates.launch_s if layer.flop_backward_weights else 0.0
    return LayerTime(layer, forward_s, data_s, weights_s, "estimated")


def _of_layout(gpu: Gpu, layout: Layout) -> tuple[str, ...]:
    """Return the sentence that channels last change nothing, where the chip's kernels turn nothing over."""
    if layout == "nchw" or constants_of(gpu, "tensor").shape.layout_passes > NO_PASS:
        return ()
    return (
        f"Convolutions on {gpu.name} are taken to last as long with channels last as with channels first, but for a "
        f"first layer of stride 2: what cuDNN turns over for {gpu.architecture} is not told apart from its kernels.",
    )


def _assumptions(model: Model, gpu: Gpu, precision: str, constants: KernelConstants) -> tuple[str, ...]:
    sentences = [
        f"Layer times of {model.name} on {gpu.name} in {precision} are estimated from kernel shapes "
        f"(constants: {constants.source})."
    ]
    if PRECISIONS[precision].beside:
        sentences.append(
            f"Products in 8 bits are taken to reach {PEAK_SHARE:.0%} of what those in 16 bits reach of their peak."
        )
    unshaped = [layer.name for layer in model.layers if layer.flop > 0 and not layer.shape]
    if unshaped:
        sentences.append(
            f"{len(unshaped)} layers give FLOP without a shape (such as '{unshaped[0]}'): "
            "they run at the rate of a large matrix product at any batch."
        )
    return tuple(sentences)
