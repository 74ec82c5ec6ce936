"""How long one matrix product or convolution takes on a GPU, from its shape.

A kernel is a product of `rows x inner` by `inner x columns`, cut into tiles that are dealt to the
multiprocessors. With b tiles, s multiprocessors and a tile of r x c,

    time = max(ceil(b / s) x 2 r c (inner + prologue) / rate, bytes / memory rate) + launches

where `rate` is one multiprocessor's peak times what large kernels reach, times c_t / (c_t + half) for the
tile's side c_t = r c / (r + c) (small tiles read more operands per FLOP), times w / (w + half) for the w tiles
resident on it (few tiles cannot hide latency). The library is taken to choose the best of some tile
shapes and, where it can, of some cuts of the inner dimension (split-K), and Winograd's algorithm (Lavin and
Gray, 2016, F(2x2, 3x3): 16 products of a quarter of the outputs) where the convolution allows it. Small
batches lose efficiency because they fill the last wave of tiles badly, hide less latency and pay the same
prologues and launches. Left out: caches, clocks that move, and the scratch space an algorithm may not get.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from clustersim.workload.kernel_constants import KernelConstants

Phase = Literal["forward", "backward_data", "backward_weights"]
PHASES: tuple[Phase, ...] = ("forward", "backward_data", "backward_weights")

_TILES = np.array(
    [(128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (64, 32), (32, 64), (32, 32)], dtype=float
)
_SPLITS = np.array([1, 2, 4, 8, 16, 32, 64], dtype=float)
_MIN_SPLIT_INNER = 32
_PARTIAL_BYTES = 4.0  # partial sums of a split inner dimension are fp32, written and read
_FULL_TILE = 128.0 * 128.0
_MAX_RESIDENT = 4.0  # tiles of 128 x 128 whose work a multiprocessor keeps in flight

_TILE_ROWS = np.repeat(_TILES[:, 0], len(_SPLITS))[None]  # [1, num_candidates]
_TILE_COLUMNS = np.repeat(_TILES[:, 1], len(_SPLITS))[None]
_TILE_SPLITS = np.tile(_SPLITS, len(_TILES))[None]


class Rates(NamedTuple):
    """What a GPU can do at one precision."""

    flop_per_s: float
    memory_bytes_per_s: float
    num_multiprocessors: int
    launch_s: float


@dataclass(frozen=True)
class Product:
    """`count` products of `rows x inner` by `inner x columns`, as one kernel.

    `num_bytes` must cross memory whatever the tiling; `efficiency` is the share of peak that a large one
    reaches; `can_split` lets the inner dimension be cut; `penalty` multiplies the time before launches, and
    the whole is done `repeats` times, one after the other.
    """

    rows: float
    columns: float
    inner: float
    count: float
    num_bytes: float
    efficiency: float
    tile_half: float
    prologue: float
    launches: float
    can_split: bool = False
    penalty: float = 1.0
    repeats: int = 1

    @property
    def flop(self) -> float:
        return 2.0 * self.rows * self.columns * self.inner * self.count * self.repeats


def product_seconds(products: Sequence[Product], rates: Rates, constants: KernelConstants) -> np.ndarray:
    """Return the seconds of each product, [num_products], by the formula at the top of this file."""
    if not products:
        return np.zeros(0)
    shared = constants.shared

    def column(name: str) -> np.ndarray:
        return np.array([[getattr(product, name)] for product in products], dtype=float)

    rows, columns, inner, count = (column(name) for name in ("rows", "columns", "inner", "count"))
    tiles = np.ceil(rows / _TILE_ROWS) * np.ceil(columns / _TILE_COLUMNS) * _TILE_SPLITS * count
    tiles_each = np.ceil(tiles / rates.num_multiprocessors)
    tile = _TILE_ROWS * _TILE_COLUMNS
    side = tile / (_TILE_ROWS + _TILE_COLUMNS)
    half = column("tile_half")
    tile_rate = side / (side + half) * (64 + half) / 64
    work = tile / _FULL_TILE * np.minimum(tiles_each, np.maximum(1.0, _MAX_RESIDENT * _FULL_TILE / tile))
    occupancy = work / (work + shared.occupancy_half) * (_MAX_RESIDENT + shared.occupancy_half) / _MAX_RESIDENT
    rate = column("efficiency") * rates.flop_per_s / rates.num_multiprocessors * tile_rate * occupancy
    compute_s = tiles_each * 2 * tile * (np.ceil(inner / _TILE_SPLITS) + column("prologue")) / rate

    partial = shared.split_traffic * 2 * _PARTIAL_BYTES * rows * columns * count
    num_bytes = column("num_bytes") + np.where(_TILE_SPLITS > 1, partial, 0.0)
    memory_s = num_bytes / (shared.memory_efficiency * rates.memory_bytes_per_s)

    whole = (column("can_split") == 0) | (inner / _TILE_SPLITS < _MIN_SPLIT_INNER)
    seconds = np.where((_TILE_SPLITS > 1) & whole, np.inf, np.maximum(compute_s, memory_s)).min(axis=1)
    once = seconds * column("penalty")[:, 0] + column("launches")[:, 0] * rates.launch_s
    result: np.ndarray = once * column("repeats")[:, 0]
    return result


def convolution_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return the algorithms a library could use for one phase of a convolution; the quickest one counts.

    `shape` is as in `Layer.shape`. The forward pass is a product of filters x (channels kernel_h kernel_w)
    by as many x (batch out_h out_w); the other phases exchange the roles. A backward pass to data through a
    stride has that much less to add for each input.
    """
    groups = shape.get("groups", 1)
    channels, filters = shape["channels"] / groups, shape["filters"] / groups
    kernel = shape["kernel_h"] * shape["kernel_w"]
    inputs = batch * shape["height"] * shape["width"]
    outputs = batch * shape["out_height"] * shape["out_width"]
    stride = shape.get("stride_h", 1) * shape.get("stride_w", 1)
    rows, columns, inner = {
        "forward": (filters, float(outputs), channels * kernel),
        "backward_data": (channels, float(inputs), max(1.0, filters * kernel / stride)),
        "backward_weights": (filters, channels * kernel, float(outputs)),
    }[phase]
    shared = constants.shared
    num_bytes = element_bytes * groups * (channels * inputs + filters * outputs + channels * filters * kernel)
    direct = Product(
        rows, columns, inner, groups, num_bytes, constants.efficiency[phase],
        tile_half=shared.convolution_tile_half,
        prologue=shared.convolution_prologue,
        launches=shared.launches(phase),
        can_split=phase == "backward_weights",
        penalty=shared.strided_backward_data if phase == "backward_data" and stride > 1 else 1.0,
    )  # fmt: skip
    if phase not in constants.winograd or (shape["kernel_h"], shape["kernel_w"], stride) != (3, 3, 1):
        return [direct]
    blocks = batch * math.ceil(shape["out_height"] / 2) * math.ceil(shape["out_width"] / 2)
    rows, columns, inner = {
        "forward": (filters, float(blocks), channels),
        "backward_data": (channels, float(blocks), filters),
        "backward_weights": (filters, channels, float(blocks)),
    }[phase]
    winograd = Product(
        rows, columns, inner, 16 * groups, num_bytes, constants.winograd[phase],
        tile_half=shared.convolution_tile_half,
        prologue=shared.convolution_prologue,
        launches=shared.launches(phase),
    )  # fmt: skip
    return [direct, winograd]


def matmul_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return the product of one phase of a fully connected layer: the samples of a batch are rows of one product.

    `shape` has `rows` of one sample, `inputs`, `outputs` and `count`, matrices beside each other.
    """
    samples = float(batch * shape["rows"])
    return [_matmul(samples, shape["inputs"], shape["outputs"], shape["count"], phase, constants, element_bytes)]


def attention_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return the product of two activations: one for each sample, and two of them backward, both to data."""
    count = shape["count"] * batch * (2 if phase == "backward_data" else 1)
    return [_matmul(shape["rows"], shape["inputs"], shape["outputs"], count, phase, constants, element_bytes)]


def recurrent_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return the product of one phase of a recurrent layer: one token after the other, `count` tokens.

    The gradient of the weights is one product over all tokens.
    """
    rows, inputs, outputs, tokens = batch * shape["rows"], shape["inputs"], shape["outputs"], shape["count"]
    if phase == "backward_weights":
        return [_matmul(rows * tokens, inputs, outputs, 1, phase, constants, element_bytes)]
    return [_matmul(rows, inputs, outputs, 1, phase, constants, element_bytes, repeats=tokens)]


def _matmul(
    samples: float, inputs: float, outputs: float, count: float, phase: Phase, constants: KernelConstants,
    element_bytes: float, repeats: int = 1,
) -> Product:  # fmt: skip
    rows, columns, inner = {
        "forward": (outputs, samples, inputs),
        "backward_data": (inputs, samples, outputs),
        "backward_weights": (outputs, inputs, samples),
    }[phase]
    shared = constants.shared
    return Product(
        rows, columns, inner, count,
        num_bytes=element_bytes * count * (inputs * outputs + samples * (inputs + outputs)),
        efficiency=constants.efficiency["matmul"],
        tile_half=shared.matmul_tile_half,
        prologue=shared.matmul_prologue,
        launches=shared.launches("matmul"),
        can_split=True,
        repeats=repeats,
    )  # fmt: skip
