"""Workloads: what a model computes layer by layer, how long that takes on one GPU, and what it holds there.

Layers and the catalogue know no device; `compute_time` and what it stands on know one GPU at a time. No
cluster, no network and no clock in here: times are numbers.
"""

from __future__ import annotations

from clustersim.workload.catalogue import MODELS, describe, load_model
from clustersim.workload.compression import COMPRESSIONS, Compression, NoCompression
from clustersim.workload.compute_time import ComputeSpec, SingleGpuRate, build_workload
from clustersim.workload.kernel_constants import moved_s
from clustersim.workload.layer import Layer, LayerTime, Model, Workload
from clustersim.workload.layer_times import Estimate, estimate_layers
from clustersim.workload.load import load_workload
from clustersim.workload.memory import check_memory, memory_overflow, memory_per_gpu
from clustersim.workload.optimizer import OptimizerSpec
from clustersim.workload.precision import PRECISIONS, Precision, precision_on
from clustersim.workload.profile import read_profile
from clustersim.workload.tensors import parameter_tensors
from clustersim.workload.workload_file import read_workload_file
from clustersim.workload.write_workload import workload_text, write_workload_file

__all__ = [
    "COMPRESSIONS",
    "MODELS",
    "PRECISIONS",
    "Compression",
    "ComputeSpec",
    "Estimate",
    "Layer",
    "LayerTime",
    "Model",
    "NoCompression",
    "OptimizerSpec",
    "Precision",
    "SingleGpuRate",
    "Workload",
    "build_workload",
    "check_memory",
    "describe",
    "estimate_layers",
    "load_model",
    "load_workload",
    "memory_overflow",
    "memory_per_gpu",
    "moved_s",
    "parameter_tensors",
    "precision_on",
    "read_profile",
    "read_workload_file",
    "workload_text",
    "write_workload_file",
]
