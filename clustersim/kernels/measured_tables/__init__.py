"""Measured tables: seconds of single kernels on a GPU, interpolated between shapes that were timed.

The tables are those of NVIDIA's package aiconfigurator-core (extra `kernels`). Its files are read and its code is never
imported. They have times of kernels in CUDA graphs, without the host that issues them, forward only. Nothing here knows
a model's layers but `layer_kernels`; nothing here knows a cluster or a clock.

| file | holds |
|---|---|
| `installed` | where the tables are, and how to get them |
| `systems` | which table holds for which GPU, from `systems.yaml` |
| `reading` | columns of a file as arrays |
| `grid` | interpolation in log space |
| `products`, `attention`, `experts` | the three kinds of kernel |
| `layer_kernels` | which kernels of a model's layers have a table, and their seconds |
| `listing` | what there is, for `clustersim list kernels` |
"""

from __future__ import annotations

from clustersim.kernels.measured_tables.installed import Tables, find_tables
from clustersim.kernels.measured_tables.layer_kernels import LayerKernels, Product, kernel_seconds
from clustersim.kernels.measured_tables.systems import Kernels, KernelSource, chosen_kernels

__all__ = [
    "KernelSource",
    "Kernels",
    "LayerKernels",
    "Product",
    "Tables",
    "chosen_kernels",
    "find_tables",
    "kernel_seconds",
]
