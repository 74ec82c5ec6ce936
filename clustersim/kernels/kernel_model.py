"""How long one matrix product or convolution takes on a GPU, from its shape.

A kernel is a product of `rows x inner` by `inner x columns`, cut into tiles that are dealt to the
multiprocessors. With b tiles, s multiprocessors and a tile of r x c,

    time = max(ceil(b / s) x 2 r c (inner + prologue) / rate, bytes / memory rate) + launches

where `rate` is one multiprocessor's peak times what large kernels reach, times c_t / (c_t + half) for the
tile's side c_t = r c / (r + c) (small tiles read more operands per FLOP), times w / (w + half) for the w tiles
resident on it (few tiles cannot hide latency). The library is taken to choose the best of some tile
shapes and, where it can, of some cuts of the inner dimension (split-K), and of the direct convolution, Winograd's
algorithm (Lavin and Gray, 2016) and Fourier transforms (Mathieu et al., 2014) where a convolution allows them. Small
batches lose efficiency because they fill the last wave of tiles badly, hide less latency and pay the same
prologues and launches: tiles in waves are what Habitat scales by (Yu et al., USENIX ATC 2021), the roofline of
a layer's FLOP and bytes is Paleo's (Qi et al., ICLR 2017). Left out: caches, clocks that move, and the scratch
space an algorithm may not get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import KernelConstants, Shape

Phase = Literal["forward", "backward_data", "backward_weights"]
PHASES: tuple[Phase, ...] = ("forward", "backward_data", "backward_weights")

_TILES = np.array(
    [(128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (64, 32), (32, 64), (32, 32)], dtype=float
)
_SPLITS = np.array([1, 2, 4, 8, 16, 32, 64], dtype=float)
_MIN_SPLIT_INNER = 32
_PARTIAL_BYTES = 4.0  # partial sums of a split inner dimension are fp32, written and read
_FULL_TILE = 128.0 * 128.0
_FAR_BYTES = 12e6  # what the second level of a Maxwell's or Pascal's address translation covers is of this order
_THIN_COLUMNS = 16  # up to which cuBLAS 8 takes a kernel of its own (gemmSN) on Pascal
_WIDEST_TILE = 128
_VECTOR = 4  # elements that a kernel loads at once
_MAX_RESIDENT = 4.0  # tiles of 128 x 128 whose work a multiprocessor keeps in flight


class Rates(NamedTuple):
    """What a GPU can do at one precision; `ordinary_flop_per_s` without tensor cores, in fp32."""

    flop_per_s: float
    memory_bytes_per_s: float
    num_multiprocessors: int
    launch_s: float
    ordinary_flop_per_s: float


def rates_of(gpu: Gpu, precision: str) -> Rates:
    """Return what a GPU's sheet promises at a precision."""
    return Rates(
        gpu.flop_per_s[precision],
        gpu.memory_bytes_per_s,
        gpu.num_multiprocessors,
        gpu.launch_s,
        gpu.flop_per_s["fp32"],
    )


@dataclass(frozen=True)
class Product:
    """`count` products of `rows x inner` by `inner x columns`, as one kernel.

    `num_bytes` must cross memory whatever the tiling, `layout_bytes` before and after it; `efficiency` is the
    share of peak that a large one reaches, of the `ordinary` units' peak where tensor cores cannot have it; no tile
    has fewer than `min_tile` outputs; `can_split` lets the inner dimension be cut; `penalty` multiplies the time
    before launches, and the whole is done `repeats` times, one after the other.
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

    @property
    def numbers(self) -> tuple[float, ...]:
        """What the formula needs, as one row of a table."""
        return (
            self.rows, self.columns, self.inner, self.count, self.num_bytes, self.efficiency, self.ordinary,
            self.tile_half, self.prologue, self.occupancy_half, self.min_tile, self.layout_bytes, self.penalty,
            self.launches, self.repeats,
        )  # fmt: skip

    @property
    def flop(self) -> float:
        return 2.0 * self.rows * self.columns * self.inner * self.count * self.repeats


def product_seconds(products: Sequence[Product], rates: Rates, constants: KernelConstants) -> np.ndarray:
    """Return the seconds of each product, [num_products], by the formula at the top of this file."""
    seconds = np.zeros(len(products))
    for can_split, splits in ((False, _SPLITS[:1]), (True, _SPLITS)):
        rows = [index for index, product in enumerate(products) if product.can_split == can_split]
        if rows:
            seconds[rows] = _best_seconds([products[index] for index in rows], splits, rates, constants.shape)
    return seconds


def _best_seconds(products: Sequence[Product], splits: np.ndarray, rates: Rates, shape: Shape) -> np.ndarray:
    """Return the seconds of each product with the best of all tiles and so many cuts, [num_products]."""
    values = np.array([product.numbers for product in products])[:, :, None]
    rows, columns, inner, count, product_bytes, efficiency, ordinary, tile_half, prologue, occupancy_half = (
        values[:, index] for index in range(10)
    )
    min_tile, layout_bytes, penalty, launches, repeats = (values[:, index, 0] for index in range(10, 15))
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
    memory_s = (product_bytes + np.where(split > 1, partial, 0.0)) / memory_rate
    too_short = (split > 1) & (inner / split < _MIN_SPLIT_INNER)
    excluded = too_short | (tile < min_tile[:, None])
    best: np.ndarray = np.where(excluded, np.inf, np.maximum(compute_s, memory_s)).min(axis=1)
    result: np.ndarray = (best * penalty + layout_bytes / memory_rate + launches * rates.launch_s) * repeats
    return result


def matmul_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return the product of one phase of a fully connected layer: the samples of a batch are rows of one product.

    `shape` has `rows` of one sample, `inputs`, `outputs` and `count`, matrices beside each other.
    """
    samples = float(batch * shape["rows"])
    return [matmul(samples, shape["inputs"], shape["outputs"], shape["count"], phase, constants, element_bytes)]


def attention_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return the product of two activations: one for each sample, and two of them backward, both to data."""
    count = shape["count"] * batch * (2 if phase == "backward_data" else 1)
    return [matmul(shape["rows"], shape["inputs"], shape["outputs"], count, phase, constants, element_bytes)]


def recurrent_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return the product of one phase of a recurrent layer: one token after the other, `count` tokens.

    The gradient of the weights is one product over all tokens.
    """
    rows, inputs, outputs, tokens = batch * shape["rows"], shape["inputs"], shape["outputs"], shape["count"]
    if phase == "backward_weights":
        return [matmul(rows * tokens, inputs, outputs, 1, phase, constants, element_bytes)]
    return [matmul(rows, inputs, outputs, 1, phase, constants, element_bytes, repeats=tokens)]


def matmul(
    samples: float, inputs: float, outputs: float, count: float, phase: Phase, constants: KernelConstants,
    element_bytes: float, repeats: int = 1,
) -> Product:  # fmt: skip
    """Return `count` products of one phase, each of so many samples with weights [outputs, inputs]."""
    rows, columns, inner = {
        "forward": (outputs, samples, inputs),
        "backward_data": (inputs, samples, outputs),
        "backward_weights": (outputs, inputs, samples),
    }[phase]
    return plain_product(rows, columns, inner, count, phase, constants, element_bytes, repeats)


def plain_product(
    rows: float, columns: float, inner: float, count: float, phase: Phase, constants: KernelConstants,
    element_bytes: float = 4.0, repeats: int = 1,
) -> Product:  # fmt: skip
    """Return `count` products of dense matrices as the phase of a layer whose weights are [outputs, inputs].

    That says which operand is transposed (in columns, as BLAS counts: forward the first, TN; to data none, NN; to
    weights the second, NT), and so which kernel runs. A transposed operand beyond what the GPU's address
    translation covers makes it `far_operand` times slower, `far_column` times where one column of tiles has nobody to
    share it with, and less where the inner dimension is a power of two; rows that no vector load fits make it
    `ragged_rows` times slower. Where the library has a kernel for few columns
    (`thin_traffic`), it takes that one, quicker or not: all that counts is how often the matrix crosses memory.
    """
    costs = constants.shape
    product = Product(
        rows, columns, inner, count,
        num_bytes=element_bytes * count * (rows * inner + columns * (rows + inner)),
        efficiency=constants.efficiency[f"matmul_{phase}"],
        tile_half=costs.matmul_tile_half,
        prologue=costs.matmul_prologue,
        occupancy_half=costs.matmul_occupancy_half,
        launches=costs.launches("matmul"),
        can_split=True,
        penalty=costs.ragged_rows if rows % _VECTOR else 1.0,
        repeats=repeats,
    )  # fmt: skip
    if costs.thin_traffic and phase != "backward_weights" and columns <= _THIN_COLUMNS:
        num_bytes = element_bytes * count * (costs.thin_traffic * rows * inner + columns * (rows + inner))
        return replace(product, num_bytes=num_bytes, tile_half=0.0, prologue=0.0, occupancy_half=0.0)
    if phase == "forward" and element_bytes * rows * inner > _FAR_BYTES:
        is_power_of_two = not int(inner) & (int(inner) - 1)
        far = costs.far_column if columns <= _WIDEST_TILE else costs.far_operand
        return replace(product, penalty=product.penalty * (costs.far_power_of_two if is_power_of_two else far))
    return product
