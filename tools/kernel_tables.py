"""Reads the tables of kernel times that NVIDIA publishes with aiconfigurator (PyPI `aiconfigurator-core`, Apache-2.0).

    systems/data/GPU/gemm/LIBRARY/VERSION/gemm_perf.parquet               m, n, k, gemm_dtype, latency in ms
    systems/data/GPU/attention/LIBRARY/VERSION/context_attention_perf.parquet
    systems/data/GPU/moe/LIBRARY/VERSION/moe_perf.parquet

A product is y[m, n] = x[m, k] times the transpose of w[n, k], as in a linear layer: TN to BLAS, with n rows and m
columns. Kernels were timed in CUDA graphs. Rows of 8 and 4 bits include the cast of x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

RELEASE = "aiconfigurator-core 0.12.0 (PyPI, NVIDIA, Apache-2.0)"
FORMATS = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
"""Bytes of an element; in nvfp4 16 elements share a scale of one byte."""


class TableGpu(NamedTuple):
    """A GPU as its data sheet has it: dense peak of 16 bits, memory rate, multiprocessors, second-level cache.

    `gains` is the peak in 8 and 4 bits over that in 16.
    """

    flop_per_s: float
    memory_bytes_per_s: float
    num_multiprocessors: int
    cache_bytes: float
    gains: Mapping[str, float]


_EIGHT = {"fp8": 2.0}
_FOUR = {"fp8": 2.0, "nvfp4": 4.0}
GPUS: Mapping[str, TableGpu] = {
    "a100_sxm": TableGpu(312e12, 2.039e12, 108, 40e6, {}),
    "h100_sxm": TableGpu(989.4e12, 3.35e12, 132, 50e6, _EIGHT),
    "h200_sxm": TableGpu(989.4e12, 4.8e12, 132, 50e6, _EIGHT),
    "b200_sxm": TableGpu(2250e12, 8e12, 148, 126e6, _FOUR),
    "gb200": TableGpu(2500e12, 8e12, 152, 126e6, _FOUR),
    "b300_sxm": TableGpu(2250e12, 8e12, 148, 126e6, _FOUR),
    "l40s": TableGpu(362.05e12, 864e9, 142, 96e6, _EIGHT),
    "rtx_pro_6000_server": TableGpu(503.8e12, 1597e9, 188, 128e6, _FOUR),
}
"""NVIDIA's data sheets and whitepapers of each: A100, H100, H200, HGX B200 and B300, GB200 NVL72, L40S, RTX PRO 6000.
The multiprocessors of GB200 and B300 are recalled, not read."""


class Products(NamedTuple):
    """Timed products, arrays of [num_products]."""

    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    seconds: np.ndarray

    def where(self, chosen: np.ndarray) -> Products:
        return Products(*(each[chosen] for each in self))


def read_products(folder: Path, gpu: str, library: str, version: str, dtype: str = "bfloat16") -> Products:
    """Return the products of one table in one format; the median where a shape is there more than once."""
    path = folder / gpu / "gemm" / library / version / "gemm_perf.parquet"
    columns = read_columns(path, ("gemm_dtype", "m", "n", "k", "latency"))
    chosen = columns["gemm_dtype"] == dtype
    shapes = np.stack([columns[name][chosen].astype(np.int64) for name in "mnk"], axis=1)
    milliseconds = columns["latency"][chosen].astype(float)
    unique, place = np.unique(shapes, axis=0, return_inverse=True)
    order = np.lexsort((milliseconds, place.ravel()))
    starts = np.searchsorted(place.ravel()[order], np.arange(len(unique) + 1))
    median = milliseconds[order][(starts[:-1] + starts[1:] - 1) // 2]
    m, n, k = unique.astype(float).T
    return Products(m, n, k, median * 1e-3)


def read_columns(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return columns of a parquet file as arrays; a column that is not there is left out."""
    from pyarrow import parquet

    there = parquet.read_schema(path).names
    table = parquet.read_table(path, columns=[name for name in names if name in there])
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


def half_of(*sizes: np.ndarray) -> np.ndarray:
    """Return 0 or 1 for each shape by a hash of its sizes: fits see the shapes of half 0 alone."""
    factors = (2654435761, 40503, 97, 131)
    mixed = np.zeros(len(sizes[0]), dtype=np.int64)
    for size, factor in zip(sizes, factors, strict=False):
        mixed ^= size.astype(np.int64) * factor
    result: np.ndarray = mixed // 7 % 2
    return result


def classes(products: Products) -> dict[str, np.ndarray]:
    """Return which products are in each class: [num_products] of bool."""
    m, n, k, seconds = products
    return {
        "all": np.full(len(m), True),
        "small": (n <= 1024) & (k <= 4096),
        "under 10 us": seconds < 10e-6,
        "large": (m >= 2048) & (n >= 1024) & (k >= 1024),
    }
