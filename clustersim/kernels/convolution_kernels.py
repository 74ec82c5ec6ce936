"""Convolution kernels: cuDNN's algorithms, and Caffe's im2col without cuDNN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import Gemm, Phase, plain_gemm

_MIN_CONVOLUTION_TILE = 4096  # cuDNN's kernels are named after tiles of 128 x 32 outputs and larger
_FFT_TILE = 32
_MIN_FFT_KERNEL = 5
_PADDED_CHANNELS = 4  # on GPUs with tensor cores, the ordinary units process channels in groups of four
_WORD = 4.0  # bytes: cuDNN transposed the inputs of 1 x 1 convolutions in 16 bits, not in TF32 (TrioSim's H100)
_ALIGNED_BYTES = 16  # of channels: cuDNN's tensor-core kernels need multiples of 8 in 16 bits, and of 4 in TF32
DEPTHWISE_SHARE = 0.25
"""Share of the ordinary units' peak of a depthwise convolution. Assumed: each of its multiply-adds loads an input and a
weight (PyTorch, aten/src/ATen/native/cuda/DepthwiseConv2d.cu), where a product has both in registers.
"""
_FULL_SIDE = 128.0  # of a tile that no padding makes larger
_FIRST_LAYER_CHANNELS = 4  # channels that cuDNN's kernels for a network's first layer read, of stride 2


def convolution_gemms(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Gemm]:
    """Return the algorithms that a library could use for one phase of a convolution; the fastest one is taken.

    `shape` is as in `Layer.shape`. The forward pass is a GEMM of filters x (channels kernel_h kernel_w) by as many x
    (batch out_h out_w); the other phases exchange the roles. With a stride, a backward pass to data has fewer terms to
    add for each input, by the product of the strides. Tensor cores read 16 bytes of channels at once: other sizes run
    on the ordinary units, padded to 4, or are padded for tensor cores (`_padded`). Tensor-core kernels can split the
    inner dimension in the forward pass too. From Ampere on they need NHWC, and NCHW tensors are transposed before and
    after, `layout_passes` times read and written, except for 1 x 1 kernels in 32 bits. Filters of one channel each have
    a kernel that is no GEMM (`_depthwise`).
    """
    ordinary = constants.tensor and not _is_aligned(shape, element_bytes)
    direct = _direct(shape, batch, phase, constants, element_bytes, ordinary)
    others = (
        _padded(shape, batch, phase, constants, element_bytes) if ordinary else None,
        _winograd(direct, shape, batch, phase, constants),
        _fourier(direct, shape, batch, phase, constants, element_bytes),
        _depthwise(direct, shape, batch),
    )
    return [direct, *(gemm for gemm in others if gemm)]


def _direct(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float, ordinary: bool
) -> Gemm:
    """Return the direct convolution, on the `ordinary` units where tensor cores cannot run it."""
    groups = shape.get("groups", 1)
    channels, filters = shape["channels"] / groups, shape["filters"] / groups
    kernel = shape["kernel_h"] * shape["kernel_w"]
    inputs = batch * shape["height"] * shape["width"]
    outputs = batch * shape["out_height"] * shape["out_width"]
    stride = math.prod(_stride(shape))
    rows, columns, inner = {
        "forward": (filters, float(outputs), channels * kernel),
        "backward_data": (channels, float(inputs), max(1.0, filters * kernel / stride)),
        "backward_weights": (filters, channels * kernel, float(outputs)),
    }[phase]
    costs = constants.shape
    moved = groups * (channels * inputs + filters * outputs)
    num_bytes = element_bytes * (moved + groups * channels * filters * kernel)
    is_transposed = not ordinary and (kernel > 1 or element_bytes < _WORD)
    if ordinary:
        padding = math.ceil(channels / _PADDED_CHANNELS) * _PADDED_CHANNELS / channels
        rows *= padding if phase == "backward_data" else 1.0
        columns *= padding if phase == "backward_weights" else 1.0
        inner *= padding if phase == "forward" else 1.0
    return Gemm(
        rows, columns, inner, groups, num_bytes,
        costs.unaligned if ordinary else constants.efficiency[phase],
        tile_half=costs.convolution_tile_half,
        prologue=_prologue(constants, ordinary),
        occupancy_half=costs.convolution_occupancy_half,
        launches=costs.launches(phase),
        can_split=phase == "backward_weights" or (phase == "forward" and constants.tensor and not ordinary),
        penalty=costs.strided_backward_data if phase == "backward_data" and stride > 1 else 1.0,
        min_tile=_MIN_CONVOLUTION_TILE,
        ordinary=ordinary,
        layout_bytes=2 * costs.layout_passes * element_bytes * moved if is_transposed else 0.0,
    )  # fmt: skip


def _depthwise(direct: Gemm, shape: Mapping[str, int], batch: int) -> Gemm | None:
    """Return the kernel of a depthwise convolution: FLOP at a share of the ordinary units' peak, and the bytes.

    It is given as one GEMM of full tiles with the same FLOP in each phase, since the kernel has no tiles.
    """
    if not is_depthwise(shape):
        return None
    places = float(batch * shape["out_height"] * shape["out_width"] * shape["filters"])
    return replace(
        direct, rows=_FULL_SIDE, columns=places / _FULL_SIDE, inner=float(shape["kernel_h"] * shape["kernel_w"]),
        count=1.0, efficiency=DEPTHWISE_SHARE, tile_half=0.0, prologue=0.0, occupancy_half=0.0, can_split=False,
        penalty=1.0, min_tile=0, ordinary=True, layout_bytes=0.0,
    )  # fmt: skip


def is_depthwise(shape: Mapping[str, int]) -> bool:
    """Say whether each filter of a convolution reads one channel."""
    return 1 < shape.get("channels", 1) == shape.get("groups", 1)


def _prologue(constants: KernelConstants, ordinary: bool) -> float:
    """Return the steps before a tile runs at full speed; the ordinary units' own value where there is one."""
    if ordinary and constants.ordinary_prologue is not None:
        return constants.ordinary_prologue
    return constants.shape.convolution_prologue


def _is_aligned(shape: Mapping[str, int], element_bytes: float) -> bool:
    """Whether tensor cores can read a convolution's channels, and write its filters', without padding."""
    groups = shape.get("groups", 1)
    return not any(shape[key] / groups * element_bytes % _ALIGNED_BYTES for key in ("channels", "filters"))


def _padded(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float
) -> Gemm | None:
    """Return a convolution on tensor cores whose channels are zero-padded to 16 bytes, where cuDNN does this.

    It costs as much as one of the padded size, and copies of the feature maps that are too narrow, read in one
    width and written in the other. Where feature maps are transposed anyway, those passes also pad. (NVIDIA, cuDNN
    Developer Guide 7.6, section 2.8.4.3, for NCHW; cuDNN 7.6.3 release notes, for NHWC.)
    Fewer channels than one unit of padding are padded to 4 at a stride of 2, where kernels do so
    (`pads_to_four_channels`). Otherwise None: DeepBench's convolutions of 1 and 3 channels, NCHW and with cuDNN 7.6.2,
    took as long as on the ordinary units. None for grouped convolutions, which those documents do not mention.
    """
    multiple = _ALIGNED_BYTES / element_bytes
    wide = {**shape, **{key: int(math.ceil(shape[key] / multiple) * multiple) for key in ("channels", "filters")}}
    if constants.pads_to_four_channels and shape["channels"] <= _FIRST_LAYER_CHANNELS and _stride(shape) == (2, 2):
        wide["channels"] = _FIRST_LAYER_CHANNELS
    elif shape["channels"] < multiple:
        return None
    if shape.get("groups", 1) > 1 or shape["filters"] < multiple:
        return None
    places = {"channels": shape["height"] * shape["width"], "filters": shape["out_height"] * shape["out_width"]}
    copied = sum((shape[key] + wide[key]) * places[key] for key in places if wide[key] > shape[key])
    gemm = _direct(wide, batch, phase, constants, element_bytes, ordinary=False)
    return replace(gemm, layout_bytes=max(gemm.layout_bytes, element_bytes * batch * copied))


def _winograd(
    direct: Gemm, shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants
) -> Gemm | None:
    """Return Winograd's algorithm F(2x2, 3x3), where it applies: 16 GEMMs of a quarter of the outputs each."""
    if phase not in constants.winograd or (shape["kernel_h"], shape["kernel_w"], *_stride(shape)) != (3, 3, 1, 1):
        return None
    blocks = float(batch * math.ceil(shape["out_height"] / 2) * math.ceil(shape["out_width"] / 2))
    rows, columns, inner = _roles(shape, blocks, phase)
    return replace(
        direct, rows=rows, columns=columns, inner=inner, count=16 * direct.count, efficiency=constants.winograd[phase],
        can_split=False, penalty=1.0,
    )  # fmt: skip


def _fourier(
    direct: Gemm, shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants,
    element_bytes: float,
) -> Gemm | None:  # fmt: skip
    """Return the algorithm of Fourier transforms on tiles of 32 x 32, where it applies (Mathieu et al., 2014).

    One complex GEMM for each of 32 x 17 frequencies (the rest are conjugates): as real numbers, twice the rows and
    twice the inner dimension. The transforms of input, output and filters cross memory, written and read. cuDNN
    has it for strides of 1 and fp32; it pays off from filters of 5 x 5 on. Gradients of weights are left out: on most
    GPUs they were timed at the time of the direct algorithm.
    """
    size = min(shape["kernel_h"], shape["kernel_w"])
    fits = _stride(shape) == (1, 1) and _MIN_FFT_KERNEL <= size <= _FFT_TILE // 2
    if not constants.winograd or phase == "backward_weights" or not fits:  # libraries with the one have the other
        return None
    height, width = ("out_height", "out_width") if phase == "forward" else ("height", "width")
    valid_h, valid_w = (_FFT_TILE - shape[key] + 1 for key in ("kernel_h", "kernel_w"))
    tiles = float(batch * math.ceil(shape[height] / valid_h) * math.ceil(shape[width] / valid_w))
    rows, columns, inner = _roles(shape, tiles, phase)
    frequencies = _FFT_TILE * (_FFT_TILE // 2 + 1)
    transforms = direct.count * (rows * columns + inner * columns + rows * inner)
    return replace(
        direct, rows=2 * rows, columns=columns, inner=2 * inner, count=frequencies * direct.count,
        efficiency=constants.efficiency["matmul_forward"],
        layout_bytes=2 * element_bytes * 2 * frequencies * transforms,
    )  # fmt: skip


def _stride(shape: Mapping[str, int]) -> tuple[int, int]:
    return shape.get("stride_h", 1), shape.get("stride_w", 1)


def _roles(shape: Mapping[str, int], places: float, phase: Phase) -> tuple[float, float, float]:
    """Return rows, columns and inner dimension of a GEMM of channels and filters at this many positions."""
    groups = shape.get("groups", 1)
    channels, filters = shape["channels"] / groups, shape["filters"] / groups
    return {
        "forward": (filters, places, channels),
        "backward_data": (channels, places, filters),
        "backward_weights": (filters, channels, places),
    }[phase]


def im2col_gemms(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Gemm]:
    """Return a convolution as in Caffe and Torch-7 before cuDNN: im2col and one plain GEMM, image by image.

    Each image's windows are written out as a matrix of (channels kernel_h kernel_w) x (out_h out_w), or gathered from
    one, by a separate kernel (Chellapilla et al., 2006), and the GEMM of each image is a kernel for each group. A 1 x 1
    convolution of stride 1 is a plain GEMM.
    """
    groups = shape.get("groups", 1)
    window = shape["channels"] // groups * shape["kernel_h"] * shape["kernel_w"]
    filters, places = shape["filters"] // groups, shape["out_height"] * shape["out_width"]
    rows, columns, inner = {
        "forward": (filters, places, window),
        "backward_data": (window, places, filters),
        "backward_weights": (filters, window, places),
    }[phase]
    gemm = plain_gemm(rows, columns, inner, 1, phase, constants, element_bytes, repeats=batch * groups)
    if shape["kernel_h"] * shape["kernel_w"] * math.prod(_stride(shape)) == 1:
        return [gemm]
    image = shape["channels"] * shape["height"] * shape["width"]
    unrolled_bytes = element_bytes * (window * groups * places + image) / groups
    launches = gemm.launches + 1 / groups
    return [replace(gemm, layout_bytes=unrolled_bytes, launches=launches)]
