"""Time of one dense product on the tensor cores of Ampere and later, from its shape.

A product of `rows x inner` by `inner x columns` is cut into tiles of r x c outputs, and its inner dimension into
`split` parts. The tiles go to the multiprocessors in w waves, of which a share of `whole_waves` is rounded up. With k
terms in a part,

    multiply = w x 2 r c k / (share x peak of a multiprocessor x supply)
    latency  = w / resident x k x step_s
    memory   = far bytes / (memory_efficiency x memory rate) + (near bytes + partial sums) / near rate
    time     = (multiply^p + latency^p + memory^p)^(1 / p) + split_s if split + kernel_s

`supply` is s / (s + tile_half) for a tile's side s = r c / (r + c), relative to the largest tile: smaller tiles read
more operands per FLOP. `step_s` is the time of a term where one tile has nothing to overlap with. A product that reads
and writes B bytes has B / (1 + (near_bytes / B)^4) far bytes; the others are in the second-level cache. The exponent p
(`overlap`) lies between a sum (1) and a maximum. The library is assumed to choose the fastest tile and split.
`kernel_s` is what a kernel takes on the GPU beyond its work; the time in which a host issues it is not included.

The constants are fitted to tables of products in CUDA graphs (`tools/table_fit.py`), all of the layout TN; the others
take as long (`docs/physics/products-in-training.md`). Waves of tiles are as in Habitat (Yu et al., USENIX ATC 2021);
waves that are not rounded up as in Stream-K (Osama et al., PPoPP 2023). Left out: clocks that fall during long kernels,
and operands that are read again because a wave of tiles does not fit into the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_TILES = np.array(
    [
        (256, 128), (128, 256), (256, 64), (64, 256), (128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128),
        (64, 32), (32, 64), (32, 32),
    ],
    dtype=float,
)  # fmt: skip
_SPLITS = np.array([1, 2, 4, 8, 16, 32], dtype=float)
_TILE_ROWS, _TILE_COLUMNS = (np.repeat(_TILES[:, side], len(_SPLITS)) for side in (0, 1))  # [num_candidates]
_SPLIT = np.tile(_SPLITS, len(_TILES))  # [num_candidates]
_MIN_SPLIT_INNER = 64
_STEP = 32  # terms that a kernel adds at once: a part of the inner dimension is filled up to a multiple of it
_PARTIAL_BYTES = 8.0  # of a partial sum in fp32, written and read
_LARGEST_SIDE = 256 * 128 / (256 + 128)
_RESIDENT_OUTPUTS = 2 * 128 * 128  # outputs of tiles that a multiprocessor keeps in flight
_CACHE_EDGE = 4  # how sharply bytes become far as they outgrow the cache


@dataclass(frozen=True)
class ProductConstants:
    """What the time of a product on one chip's tensor cores depends on, beside its share of the peak.

    `kernel_s` is the fixed time of a kernel on the GPU and `split_s` that of a split inner dimension, `step_s` the time
    of one term of the inner dimension in a tile alone, `near_bytes_per_s` the rate of operands in the second-level
    cache and `near_bytes` how many it keeps. `fp8_share` and `nvfp4_share` are the share of the peak in 8 and 4 bits
    over that in 16; None where no table has them.
    """

    kernel_s: float
    split_s: float
    step_s: float
    tile_half: float
    whole_waves: float
    overlap: float
    memory_efficiency: float
    near_bytes_per_s: float
    near_bytes: float
    fp8_share: float | None = None
    nvfp4_share: float | None = None


class Shapes(NamedTuple):
    """Products to be timed, arrays of [num_products].

    `copies` products of one shape are one kernel, which moves `num_bytes`. `flop_per_s` is the share of the peak that
    large products reach on one multiprocessor.
    """

    rows: np.ndarray
    columns: np.ndarray
    inner: np.ndarray
    copies: np.ndarray
    num_bytes: np.ndarray
    flop_per_s: np.ndarray


def product_seconds(
    shapes: Shapes, memory_bytes_per_s: float, num_multiprocessors: int, constants: ProductConstants
) -> np.ndarray:
    """Return the seconds of products without their `kernel_s`, [num_products]."""
    rows, columns, inner, copies, num_bytes, flop_per_s = (np.asarray(each, dtype=float)[:, None] for each in shapes)
    tiles = np.ceil(rows / _TILE_ROWS) * np.ceil(columns / _TILE_COLUMNS) * (_SPLIT * copies)
    waves = tiles / num_multiprocessors
    whole = constants.whole_waves
    waves = np.where(waves > 1, whole * np.ceil(waves) + (1 - whole) * waves, 1.0)
    outputs = _TILE_ROWS * _TILE_COLUMNS
    side = outputs / (_TILE_ROWS + _TILE_COLUMNS)
    half = constants.tile_half
    supply = side / (side + half) * (_LARGEST_SIDE + half) / _LARGEST_SIDE
    terms = np.ceil(inner / _SPLIT / _STEP) * _STEP
    multiply_s = waves * 2 * outputs * terms / (flop_per_s * supply)
    resident = np.maximum(1.0, np.floor(_RESIDENT_OUTPUTS / outputs))
    latency_s = np.maximum(1.0, waves / resident) * terms * constants.step_s
    memory_s = _memory_s(rows * columns * copies, num_bytes, memory_bytes_per_s, constants)
    longest = np.maximum(multiply_s, np.maximum(latency_s, memory_s))
    power = constants.overlap
    body = sum((part / longest) ** power for part in (multiply_s, latency_s, memory_s)) ** (1 / power) * longest
    seconds = body + np.where(_SPLIT > 1, constants.split_s, 0.0)
    too_short = (_SPLIT > 1) & (inner / _SPLIT < _MIN_SPLIT_INNER)
    best: np.ndarray = np.where(too_short, np.inf, seconds).min(axis=1)
    return best


def _memory_s(
    outputs: np.ndarray, num_bytes: np.ndarray, memory_bytes_per_s: float, constants: ProductConstants
) -> np.ndarray:
    """Return the seconds of the bytes that products move, [num_products, num_candidates]."""
    far_rate = constants.memory_efficiency * memory_bytes_per_s
    near_rate = max(constants.near_bytes_per_s, far_rate)
    far = num_bytes / (1 + (constants.near_bytes / num_bytes) ** _CACHE_EDGE)
    partial = np.where(_SPLIT > 1, _PARTIAL_BYTES * outputs * _SPLIT, 0.0)
    result: np.ndarray = far / far_rate + (num_bytes - far + partial) / near_rate
    return result
