"""Models: layers with their FLOP, parameters and activations per sample; the catalogue; workload files.

No device and no clock in this package: `clustersim.kernels` gives the time of a layer on a GPU.
"""

from __future__ import annotations

from clustersim.model.catalogue import MODELS, describe, load_model
from clustersim.model.layer import Layer, LayerTime, Model, Workload
from clustersim.model.precision import PRECISIONS, Precision, precision_on
from clustersim.model.tensors import parameter_tensors
from clustersim.model.workload_file import load_workload, read_workload_file
from clustersim.model.write_workload import workload_text, write_workload_file

__all__ = [
    "MODELS",
    "PRECISIONS",
    "Layer",
    "LayerTime",
    "Model",
    "Precision",
    "Workload",
    "describe",
    "load_model",
    "load_workload",
    "parameter_tensors",
    "precision_on",
    "read_workload_file",
    "workload_text",
    "write_workload_file",
]
