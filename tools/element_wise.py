"""Fits the memory traffic of everything that is no product: pooling, activations, normalisation, joins.

Two generations of kernels: Caffe's own on a Titan X (2015), and PyTorch's and cuDNN's on an H100 (2023), whose images
lay channels first in fp32. Batch norms of 16 bits with channels last are xwang233's, of PyTorch's `BatchNorm3d` on an
A100 and a V100 (`code-snippet`), those of 64 channels, the widest that were timed, as ResNet's narrowest are. Their
backward calls add the gradient to the one before (`out.backward(go, retain_graph=True)`), two reads and a write: three
passes at the share of the memory's rate that a ReLU reaches are taken off.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from kernel_data import caffe_layers, norms_channels_last, operators

from clustersim.hardware import Gpu, load_gpu
from clustersim.model.catalogue import load_model
from clustersim.model.layer import Layer

BYTES = 4.0
MIN_SECONDS = 20e-6  # shorter ones are launches
MIN_NORM_S = 0.25e-3  # of norms with channels last: shorter ones are PyTorch's thread in part
NORM_PASSES = ((2, 1), (4, 1))  # read and written by a batch norm, forward and backward
ADDED_PASSES = 3.0
TORCH_OPS = {
    "relu_": ("relu", 0), "ReluBackward0": ("relu", 1), "batch_norm": ("batch-norm", 0),
    "CudnnBatchNormBackward0": ("batch-norm", 1), "add_": ("add", 0), "max_pool2d": ("pooling", 0),
    "MaxPool2DWithIndicesBackward0": ("pooling", 1),
}  # fmt: skip

Traffic = dict[str, dict[str, dict[str, float]]]


def fit_element_wise(folder: Path) -> dict[str, dict[str, object]]:
    """Return the traffic tables of both generations, with the share of the memory rate that their ReLU reaches."""
    return {"caffe": _caffe(folder), "torch": _torch(folder)}


def _caffe(folder: Path) -> dict[str, object]:
    gpu = load_gpu("titan-x-maxwell")
    times = caffe_layers(folder, "googlenet")
    layers = {_caffe_name(layer.name): layer for layer in load_model("googlenet").layers}
    pairs = [(layers[name], seconds) for name, seconds in times.items() if name in layers and max(seconds) > 1e-4]
    by_op: dict[str, list[tuple[Layer, tuple[float, float]]]] = defaultdict(list)
    for layer, seconds in pairs:
        by_op[layer.op].append((layer, seconds))
    relu = [(2 * layer.output_elements, seconds[0]) for layer, seconds in by_op["relu"]]
    efficiency = float(np.median([_share(gpu, elements * 128, seconds) for elements, seconds in relu]))
    traffic: Traffic = {}
    sizes = {
        op: [(layer.input_elements * 128, layer.output_elements * 128, seconds) for layer, seconds in rows]
        for op, rows in by_op.items()
    }
    for op, passes in {"relu": ((1, 1), (2, 1)), "concat": ((1, 1), (1, 1))}.items():
        traffic[op] = {
            phase: _scaled(gpu, efficiency, passes[index], [(i, o, seconds[index]) for i, o, seconds in sizes[op]])
            for index, phase in enumerate(("forward", "backward"))
        }
    traffic["pooling"] = {
        phase: _pooling(gpu, efficiency, by_op["pooling"], index) for index, phase in enumerate(("forward", "backward"))
    }
    return {"memory_efficiency": round(efficiency, 3), "traffic": traffic}


def _caffe_name(name: str) -> str:
    """Return what convnet-benchmarks' GoogLeNet calls a layer of Caffe's."""
    return name.replace("conv1/relu_7x7_s2", "conv1/relu_7x7")


def _pooling(
    gpu: Gpu, efficiency: float, rows: list[tuple[Layer, tuple[float, float]]], phase: int
) -> dict[str, float]:
    """Fit input and window traffic, each relative error counting alike; the output's own is one pass."""
    from scipy.optimize import nnls

    design, target = [], []
    for layer, seconds in rows:
        window = layer.shape.get("kernel_h", 0) * layer.shape.get("kernel_w", 0)
        moved = seconds[phase] * efficiency * gpu.memory_bytes_per_s / BYTES / 128 - layer.output_elements
        if window:
            design.append([layer.input_elements / moved, window * layer.output_elements / moved])
            target.append(1.0)
    (inputs, windows), _ = nnls(np.array(design), np.array(target))
    return {"input": round(float(inputs), 2), "output": 1.0, "window": round(float(windows), 2)}


def _torch(folder: Path) -> dict[str, object]:
    gpu = load_gpu("h100")
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = defaultdict(list)
    for network in ("resnet50", "vgg13"):
        for name, seconds, inputs, outputs in operators(folder, network):
            short = name.removeprefix("aten::")
            if seconds > MIN_SECONDS and short in TORCH_OPS:
                op, phase = TORCH_OPS[short]
                read = 2 * inputs if op == "add" else inputs  # the trace counts one of the two terms
                found[op, phase].append((outputs, inputs, seconds) if phase else (read, outputs, seconds))
    relu = [_share(gpu, inputs + outputs, seconds) for inputs, outputs, seconds in found["relu", 0]]
    efficiency = float(np.median(relu))
    passes = {
        "relu": ((1, 1), (2, 1)),
        "batch-norm": ((2, 1), (4, 1)),
        "add": ((1, 1), (0, 0)),  # both terms get the sum's gradient as it is
        "pooling": ((1, 1), (1, 1)),
    }
    traffic: Traffic = {
        op: {
            phase: _scaled(gpu, efficiency, both[index], found.get((op, index), []))
            for index, phase in enumerate(("forward", "backward"))
        }
        for op, both in passes.items()
    }
    last = norm_channels_last(efficiency)
    return {"memory_efficiency": round(efficiency, 3), "traffic": traffic, "channels_last": last}


def norm_channels_last(efficiency: float) -> Traffic:
    """Return what a batch norm of 16 bits moves with channels last: the passes it must make, times a median factor."""
    rows = [row for row in norms_channels_last() if row.forward_s > MIN_NORM_S]
    times = (
        [row.forward_s * efficiency * row.bytes_per_s / row.num_bytes for row in rows],
        [row.backward_s * efficiency * row.bytes_per_s / row.num_bytes - ADDED_PASSES for row in rows],
    )
    factors = [float(np.median(passes)) / sum(must) for passes, must in zip(times, NORM_PASSES, strict=True)]
    return {
        "batch-norm": {
            phase: {"input": round(must[0] * factor, 2), "output": round(must[1] * factor, 2)}
            for phase, must, factor in zip(("forward", "backward"), NORM_PASSES, factors, strict=True)
        }
    }


def _share(gpu: Gpu, elements: float, seconds: float) -> float:
    return elements * BYTES / seconds / gpu.memory_bytes_per_s


def _scaled(
    gpu: Gpu, efficiency: float, passes: tuple[float, float], rows: list[tuple[float, float, float]]
) -> dict[str, float]:
    """Return the passes an operation must make, times the median by which its kernels take longer than they must."""
    factors = [
        seconds * efficiency * gpu.memory_bytes_per_s / BYTES / (passes[0] * inputs + passes[1] * outputs)
        for inputs, outputs, seconds in rows
    ]
    factor = float(np.median(factors)) if factors else 1.0
    return {"input": round(passes[0] * factor, 2), "output": round(passes[1] * factor, 2)}
