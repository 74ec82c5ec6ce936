"""Kernels: the time of a model's layers, of the optimizer and of gradient compression on one GPU, and its memory use.

Measured times are preferred to published rates, and published rates to estimates (`compute_time`). `programs` holds
the operations that a training program runs in addition to the GEMMs. This package models one GPU: no cluster, no
network and no clock.
"""

from __future__ import annotations

from clustersim.kernels.compression import COMPRESSIONS, Compression, NoCompression
from clustersim.kernels.compute_time import ComputeSpec, SingleGpuRate, build_workload
from clustersim.kernels.kernel_constants import moved_s
from clustersim.kernels.layer_times import Estimate, estimate_layers
from clustersim.kernels.memory import check_memory, memory_lack, memory_overflow, memory_per_gpu
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
    "memory_lack",
    "memory_overflow",
    "memory_per_gpu",
    "moved_s",
    "read_profile",
]
