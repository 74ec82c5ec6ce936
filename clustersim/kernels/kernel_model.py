"""Time of one GEMM or convolution on a GPU, from its shape.

A kernel is a GEMM of `rows x inner` by `inner x columns`, cut into tiles that are distributed over the
multiprocessors. With b tiles, s multiprocessors and a tile of r x c,

    time = max(ceil(b / s) x 2 r c (inner + prologue) / rate, bytes / memory rate) + launches + fixed

where `rate` is one multiprocessor's peak times the share that large kernels reach, times c_t / (c_t + half) for the
tile's side c_t = r c / (r + c) (small tiles read more operands per FLOP), times w / (w + half) for the w tiles
resident on it (few tiles cannot hide latency). The library is assumed to choose the fastest of some tile
shapes and, where it can, of some splits of the inner dimension (split-K), and of the direct convolution, Winograd's
algorithm (Lavin and Gray, 2016) and Fourier transforms (Mathieu et al., 2014) where a convolution allows them. Small
batches lose efficiency because they fill the last wave of tiles badly, hide less latency and have the same prologues
and launches. Dense products on the tensor cores of Ampere and later have a law of their own (`tensor_products`), in
which nothing is a launch. Scaling by waves of tiles is as in Habitat (Yu et al., USENIX ATC 2021); the roofline of a
layer's FLOP and bytes is as in Paleo (Qi et al., ICLR 2017). Left out: caches, varying clocks, and workspace limits
that exclude an algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import KernelConstants, ShapeConstants
from clustersim.kernels.tensor_products import ProductConstants, Shapes, product_seconds

Phase = Literal["forward", "backward_data", "backward_weights"]
PHASES: tuple[Phase, ...] = ("forward", "backward_data", "backward_weights")

_TILES = np.array(
    [(128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (64, 32), (32, 64), (32, 32)], dtype=float
)
_SPLITS = np.array([1, 2, 4, 8, 16, 32, 64], dtype=float)
_MIN_SPLIT_INNER = 32
_PARTIAL_BYTES = 4.0  # partial sums of a split inner dimension are fp32, written and read
_FULL_TILE = 128.0 * 128.0
_FAR_BYTES = 12e6  # order of magnitude of what the second-level TLB of a Maxwell or Pascal covers
_THIN_COLUMNS = 16  # up to this width cuBLAS 8 uses a special kernel (gemmSN) on Pascal
_WIDEST_TILE = 128
_VECTOR = 4  # elements that a kernel loads at once
_MAX_RESIDENT = 4.0  # tiles of 128 x 128 that a multiprocessor keeps in flight


class GpuRates(NamedTuple):
    """Peak rates of a GPU at one precision; `ordinary_flop_per_s` is without tensor cores, in fp32."""

    flop_per_s: float
    memory_bytes_per_s: float
    num_multiprocessors: int
    launch_s: float
    ordinary_flop_per_s: float


def rates_of(gpu: Gpu, precision: str) -> GpuRates:
    """Return the peak rates of a GPU's sheet at a precision."""
    return GpuRates(
        gpu.flop_per_s[precision],
        gpu.memory_bytes_per_s,
        gpu.num_multiprocessors,
        gpu.launch_s,
        gpu.flop_per_s["fp32"],
    )


@dataclass(frozen=True)
class Gemm:
    """`count` GEMMs of `rows x inner` by `inner x columns`, as one kernel.

    `num_bytes` must cross memory whatever the tiling, `layout_bytes` before and after it. `efficiency` is the
    share of peak that a large GEMM reaches, of the `ordinary` units' peak where tensor cores cannot run it. No tile
    has fewer than `min_tile` outputs. `can_split` allows splits of the inner dimension. `penalty` multiplies the time
    before launches, `fixed_s` are seconds on the GPU beyond the work, and the whole is executed `repeats` times in
    sequence. `is_product` is a dense product that has the law of `tensor_products`, where tile, prologue and occupancy
    have no effect.
    """

    rows: float
    columns: float
    inner: float
    count: float
    num_bytes: float
    efficiency: float
    tile_half: float
    prologue: float
    occupancy_half: float
    launches: float
    can_split: bool = False
    penalty: float = 1.0
    repeats: int = 1
    min_tile: int = 0
    ordinary: bool = False
    layout_bytes: float = 0.0
    fixed_s: float = 0.0
    is_product: bool = False

    @property
    def numbers(self) -> tuple[float, ...]:
        """The inputs of the formula, as one row of a table."""
        return (
            self.rows, self.columns, self.inner, self.count, self.num_bytes, self.efficiency, self.ordinary,
            self.tile_half, self.prologue, self.occupancy_half, self.min_tile, self.layout_bytes, self.penalty,
            self.launches, self.repeats, self.fixed_s,
        )  # fmt: skip

    @property
    def flop(self) -> float:
        return 2.0 * self.rows * self.columns * self.inner * self.count * self.repeats


def gemm_seconds(gemms: Sequence[Gemm], rates: GpuRates, constants: KernelConstants) -> np.ndarray:
    """Return the seconds of each GEMM, [num_gemms], by the formula at the top of this file or that of products."""
    seconds = np.zeros(len(gemms))
    products = [index for index, gemm in enumerate(gemms) if gemm.is_product]
    if products and constants.products:
        seconds[products] = _product_seconds([gemms[index] for index in products], rates, constants, constants.products)
    for can_split, splits in ((False, _SPLITS[:1]), (True, _SPLITS)):
        rows = [index for index, gemm in enumerate(gemms) if gemm.can_split == can_split and not gemm.is_product]
        if rows:
            seconds[rows] = _best_seconds([gemms[index] for index in rows], splits, rates, constants.shape)
    return seconds


def _product_seconds(
    gemms: Sequence[Gemm], rates: GpuRates, constants: KernelConstants, products: ProductConstants
) -> np.ndarray:
    """Return the seconds of dense products on tensor cores, [num_gemms]."""
    rows, columns, inner, count, num_bytes, efficiency, layout_bytes, penalty, launches, fixed_s, repeats = np.array(
        [
            (
                each.rows, each.columns, each.inner, each.count, each.num_bytes, each.efficiency, each.layout_bytes,
                each.penalty, each.launches, each.fixed_s, each.repeats,
            )
            for each in gemms
        ]
    ).T  # fmt: skip
    shapes = Shapes(rows, columns, inner, count, num_bytes, efficiency * rates.flop_per_s / rates.num_multiprocessors)
    body = product_seconds(shapes, rates.memory_bytes_per_s, rates.num_multiprocessors, products)
    layout_s = layout_bytes / (constants.shape.memory_efficiency * rates.memory_bytes_per_s)
    result: np.ndarray = (body * penalty + layout_s + launches * rates.launch_s + fixed_s) * repeats
    return result


def _best_seconds(gemms: Sequence[Gemm], splits: np.ndarray, rates: GpuRates, shape: ShapeConstants) -> np.ndarray:
    """Return the seconds of each GEMM with the fastest combination of tile and split, [num_gemms]."""
    values = np.array([gemm.numbers for gemm in gemms])[:, :, None]
    rows, columns, inner, count, gemm_bytes, efficiency, ordinary, tile_half, prologue, occupancy_half = (
        values[:, index] for index in range(10)
    )
    min_tile, layout_bytes, penalty, launches, repeats, fixed_s = (values[:, index, 0] for index in range(10, 16))
    tile_rows, tile_columns = (np.repeat(_TILES[:, side], len(splits)) for side in (0, 1))  # [num_candidates]
    split = np.tile(splits, len(_TILES))
    tiles = np.ceil(rows / tile_rows) * np.ceil(columns / tile_columns) * (split * count)
    tiles_each = np.ceil(tiles / rates.num_multiprocessors)
    tile = tile_rows * tile_columns
    side = tile / (tile_rows + tile_columns)
    tile_rate = side / (side + tile_half) * (64 + tile_half) / 64
    work = tile / _FULL_TILE * np.minimum(tiles_each, np.maximum(1.0, _MAX_RESIDENT * _FULL_TILE / tile))
    occupancy = work / (work + occupancy_half) * (1 + occupancy_half / _MAX_RESIDENT)
    peak = efficiency * np.where(ordinary, rates.ordinary_flop_per_s, rates.flop_per_s) / rates.num_multiprocessors
    compute_s = tiles_each * (2 * tile) * (np.ceil(inner / split) + prologue) / (peak * tile_rate * occupancy)

    partial = shape.split_traffic * 2 * _PARTIAL_BYTES * rows * columns * count
    memory_rate = shape.memory_efficiency * rates.memory_bytes_per_s
    memory_s = (gemm_bytes + np.where(split > 1, partial, 0.0)) / memory_rate
    too_short = (split > 1) & (inner / split < _MIN_SPLIT_INNER)
    excluded = too_short | (tile < min_tile[:, None])
    best: np.ndarray = np.where(excluded, np.inf, np.maximum(compute_s, memory_s)).min(axis=1)
    result: np.ndarray = (best * penalty + layout_bytes / memory_rate + launches * rates.launch_s + fixed_s) * repeats
    return result


def linear_gemms(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Gemm]:
    """Return the GEMM of one phase of a fully connected layer: the samples of a batch are rows of one GEMM.

    `shape` has `rows` of one sample, `inputs`, `outputs` and `count`, the number of independent matrices.
    """
    samples = float(batch * shape["rows"])
    return [layer_gemm(samples, shape["inputs"], shape["outputs"], shape["count"], phase, constants, element_bytes)]


def attention_gemms(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Gemm]:
    """Return the batched GEMM of two activations: one for each sample, and two of them backward, both to data."""
    count = shape["count"] * batch * (2 if phase == "backward_data" else 1)
    return [layer_gemm(shape["rows"], shape["inputs"], shape["outputs"], count, phase, constants, element_bytes)]


def recurrent_gemms(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Gemm]:
    """Return the GEMM of one phase of a recurrent layer: `count` tokens in sequence.

    The gradient of the weights is one GEMM over all tokens.
    """
    rows, inputs, outputs, tokens = batch * shape["rows"], shape["inputs"], shape["outputs"], shape["count"]
    if phase == "backward_weights":
        return [layer_gemm(rows * tokens, inputs, outputs, 1, phase, constants, element_bytes)]
    return [layer_gemm(rows, inputs, outputs, 1, phase, constants, element_bytes, repeats=tokens)]


def layer_gemm(
    samples: float, inputs: float, outputs: float, count: float, phase: Phase, constants: KernelConstants,
    element_bytes: float, repeats: int = 1,
) -> Gemm:  # fmt: skip
    """Return `count` GEMMs of one phase, each of this many samples with weights [outputs, inputs]."""
    rows, columns, inner = {
        "forward": (outputs, samples, inputs),
        "backward_data": (inputs, samples, outputs),
        "backward_weights": (outputs, inputs, samples),
    }[phase]
    return plain_gemm(rows, columns, inner, count, phase, constants, element_bytes, repeats)


def plain_gemm(
    rows: float, columns: float, inner: float, count: float, phase: Phase, constants: KernelConstants,
    element_bytes: float = 4.0, repeats: int = 1,
) -> Gemm:  # fmt: skip
    """Return `count` dense GEMMs as the phase of a layer whose weights are [outputs, inputs].

    The phase determines which operand is transposed (column-major, as in BLAS: forward the first, TN; to data none, NN;
    to weights the second, NT), and so which kernel runs. A transposed operand larger than the reach of the GPU's
    address translation makes it `far_operand` times slower, `far_column` times where there is only one column of tiles
    to use it, and less where the inner dimension is a power of two. A number of rows that vector loads do not divide
    makes it `ragged_rows` times slower. Where the library has a kernel for few columns (`thin_traffic`), it always
    takes that one, faster or not. Its time depends only on how often the matrix crosses memory. On a chip whose
    products have a law of their own, no operand is far and none of these kernels is known.
    """
    costs, product = constants.shape, constants.products
    gemm = Gemm(
        rows, columns, inner, count,
        num_bytes=element_bytes * count * (rows * inner + columns * (rows + inner)),
        efficiency=constants.efficiency[f"matmul_{phase}"],
        tile_half=costs.matmul_tile_half,
        prologue=costs.matmul_prologue,
        occupancy_half=costs.matmul_occupancy_half,
        launches=0.0 if product else costs.launches("matmul"),
        can_split=True,
        penalty=costs.ragged_rows if rows % _VECTOR else 1.0,
        repeats=repeats,
        fixed_s=product.kernel_s if product else 0.0,
        is_product=product is not None,
    )  # fmt: skip
    if product:
        return gemm
    if costs.thin_traffic and phase != "backward_weights" and columns <= _THIN_COLUMNS:
        num_bytes = element_bytes * count * (costs.thin_traffic * rows * inner + columns * (rows + inner))
        return replace(gemm, num_bytes=num_bytes, tile_half=0.0, prologue=0.0, occupancy_half=0.0)
    if phase == "forward" and element_bytes * rows * inner > _FAR_BYTES:
        is_power_of_two = not int(inner) & (int(inner) - 1)
        far = costs.far_column if columns <= _WIDEST_TILE else costs.far_operand
        return replace(gemm, penalty=gemm.penalty * (costs.far_power_of_two if is_power_of_two else far))
    return gemm
