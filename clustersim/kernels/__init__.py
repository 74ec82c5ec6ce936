"""Kernels: how long the layers of a model, the optimizer and gradient compression take on one GPU, and what fits there.

Measured times come before published rates, and published rates before estimates (`compute_time`). `programs` holds
the operations that a training program runs beside the matrix products. This package knows one GPU at a time: no
cluster, no network and no clock.
"""

from __future__ import annotations

from clustersim.kernels.compression import COMPRESSIONS, Compression, NoCompression
from clustersim.kernels.compute_time import ComputeSpec, SingleGpuRate, build_workload
from clustersim.kernels.kernel_constants import moved_s
from clustersim.kernels.layer_times import Estimate, estimate_layers
from clustersim.kernels.memory import check_memory, memory_overflow, memory_per_gpu
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.kernels.profile import read_profile

__all__ = [
    "COMPRESSIONS",
    "Compression",
    "ComputeSpec",
    "Estimate",
    "NoCompression",
    "OptimizerSpec",
    "SingleGpuRate",
    "build_workload",
    "check_memory",
    "estimate_layers",
    "memory_overflow",
    "memory_per_gpu",
    "moved_s",
    "read_profile",
]
