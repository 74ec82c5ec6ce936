"""Fits plain products on the tensor cores of Hopper and Ampere to rates that people published, shape by shape.

    python tools/product_fit.py

reads `product_rates.csv` and replaces the constants of these products in `clustersim/kernels`; `fit_kernels.py` ends
with it. On Hopper three are fitted: the share of peak, which is one for all phases (what was timed does not tell them
apart), the prologue and the occupancy. Ampere has Hopper's shape and a share of its own. Every decade of FLOP counts
alike, large errors linearly. No operand is far from a product: with weights of 132 MB those of up to 128 columns (vLLM)
take what their bytes take. Launches, split sums and rows that no vector load fits are Volta's.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from chip_fit import MATMULS, summary
from kernel_data import Kernel
from ruamel.yaml import YAML
from write_fit import ERRORS_HEADER, HEADER, KERNELS, rounded, write

from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_constants import KernelConstants, constants_for, fit_document
from clustersim.kernels.kernel_model import Gemm, gemm_seconds, plain_gemm, rates_of
from clustersim.model.precision import PRECISIONS

RATES = Path(__file__).with_name("product_rates.csv")
FREE = ("share", "matmul_prologue", "matmul_occupancy_half")
START, LOWER, UPPER = (0.8, 60.0, 0.05), (0.3, 1.0, 1e-3), (1.0, 1000.0, 8.0)
NEAR = {"far_operand": 1.0, "far_column": 1.0, "far_power_of_two": 1.0}
LINEAR_FROM = 0.1  # the error from which errors count linearly
NAMES = {"gh100-tensor": ("h100", "hopper"), "ga100-tensor": ("a100", "ampere")}
SOURCE = {
    "gh100-tensor": "TrioSim: ResNet-50's convolutions in PyTorch on an H100, TF32; plain products: 95 rates of XLA, "
    "torch-performance, ml-engineering and vLLM on H100",
    "ga100-tensor": "code-snippet: convolutions on an A100, FP16, cuDNN 8.0.5, and ResNet-50 with channels first and "
    "last (NVIDIA/apex, issue 1445); plain products: 26 rates of Triton's issues and ml-engineering, in Hopper's shape",
}
ORIGIN = {
    "product_rates": "openxla/xla in tensorflow/tensorflow, third_party/xla/xla/service/gpu/model/"
    "matmul_interpolator_data.h, commit 372d578bb861cc5804e56d37d93aec931a59762c, its last 76 entries; "
    "zzc0721/torch-performance-test-data, issue 79; stas00/ml-engineering, compute/accelerator/README.md, commit "
    "b9e29720eebd4aa946fa9678975385efbc90a777; vllm-project/vllm, pull request 49363; triton-lang/triton, issues 743, "
    "3551 and 7085"
}


def product_rates(gpu: str) -> list[Kernel]:
    """Return the products that were timed on a GPU as kernels, row-major matrices, BLAS's NN; `key` is the source."""
    with RATES.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["gpu"] == gpu]
    return [_kernel(row) for row in rows]


def _kernel(row: Mapping[str, str]) -> Kernel:
    shape = {name: int(row[name]) for name in ("count", "rows", "columns", "inner")}
    seconds = 2.0 * np.prod([float(size) for size in shape.values()]) / (float(row["tflop_per_s"]) * 1e12)
    gpu, precision = load_gpu(row["gpu"]), row["precision"]
    return Kernel(gpu, precision, "product", shape, 1, "backward_data", float(seconds), (row["source"],))


def errors(kernels: Sequence[Kernel], known: KernelConstants) -> np.ndarray:
    """Return log(model / measured) of every product."""
    found: dict[str, list[Gemm]] = {}
    for kernel in kernels:
        shape, size = kernel.shape, PRECISIONS[kernel.precision].operand_bytes
        sizes = (shape["rows"], shape["columns"], shape["inner"], shape["count"])
        found.setdefault(kernel.precision, []).append(plain_gemm(*sizes, kernel.phase, known, size))
    gpu = kernels[0].gpu
    seconds = {name: iter(gemm_seconds(group, rates_of(gpu, name), known)) for name, group in found.items()}
    return np.array([np.log(next(seconds[kernel.precision]) / kernel.seconds) for kernel in kernels])


def with_products(known: KernelConstants, share: float, **shape: float) -> KernelConstants:
    """Return constants with another share of peak and another shape of plain products."""
    efficiency = {**known.efficiency, **dict.fromkeys(MATMULS, share)}
    return replace(known, shape=replace(known.shape, **NEAR, **shape), efficiency=efficiency)


def fit_products(kernels: Sequence[Kernel], known: KernelConstants, free: Sequence[str] = FREE) -> KernelConstants:
    """Return constants with the first of `FREE`, or all of them, fitted to products."""
    from scipy.optimize import least_squares

    weights = _weights(kernels)
    number = len(free)

    def made(values: np.ndarray) -> KernelConstants:
        return with_products(known, **dict(zip(free, np.exp(values).tolist(), strict=True)))

    def residuals(values: np.ndarray) -> np.ndarray:
        error = errors(kernels, made(values))
        size = LINEAR_FROM * np.sqrt(2 * (np.sqrt(1 + (error / LINEAR_FROM) ** 2) - 1))
        result: np.ndarray = weights * size * np.sign(error)
        return result

    bounds = (np.log(LOWER[:number]), np.log(UPPER[:number]))
    return made(least_squares(residuals, np.log(START[:number]), bounds=bounds, diff_step=np.array(1e-3)).x)


def _weights(kernels: Sequence[Kernel]) -> np.ndarray:
    """Return weights by which every decade of FLOP counts alike, 1 in the mean square."""
    flop = [2.0 * np.prod([float(size) for size in kernel.shape.values()]) for kernel in kernels]
    decades = np.floor(np.log10(flop))
    _, place, counts = np.unique(decades, return_inverse=True, return_counts=True)
    result: np.ndarray = np.sqrt(len(kernels) / len(counts) / counts[place])
    return result


def left_out(kernels: Sequence[Kernel], known: KernelConstants, free: Sequence[str] = FREE) -> np.ndarray:
    """Return the errors of products by constants fitted to the other sources alone."""
    sources = np.array([kernel.key[0] for kernel in kernels])
    error = np.zeros(len(kernels))
    for source in np.unique(sources):
        others = [kernel for kernel, other in zip(kernels, sources, strict=True) if other != source]
        those = [kernel for kernel, other in zip(kernels, sources, strict=True) if other == source]
        error[sources == source] = errors(those, fit_products(others, known, free))
    return error


def main() -> None:
    """Fit, score, and write both files."""
    yaml = YAML(typ="safe", pure=True)
    document: dict[str, Any] = yaml.load((KERNELS / "kernel_fit.yaml").read_text(encoding="utf-8"))
    scores: dict[str, Any] = yaml.load((KERNELS / "kernel_errors.yaml").read_text(encoding="utf-8"))
    hopper = constants_for("hopper", "tensor")
    fitted = fit_products(product_rates("h100"), hopper)
    shape = {name: getattr(fitted.shape, name) for name in FREE[1:]}
    ampere = with_products(constants_for("ampere", "tensor"), 1.0, **shape)
    of_chip = {"gh100-tensor": fitted, "ga100-tensor": fit_products(product_rates("a100"), ampere, FREE[:1])}
    document["origin"] |= ORIGIN
    for chip, known in of_chip.items():
        gpu, _ = NAMES[chip]
        entry, timed = document["chips"][chip], product_rates(gpu)
        entry["source"] = SOURCE[chip]
        entry["shape"] |= rounded({**NEAR, **shape})
        entry["efficiency"] |= rounded({name: known.efficiency[name] for name in MATMULS})
        free = FREE if gpu == "h100" else FREE[:1]
        scores["fitted"][f"{gpu} tensor, products"] = summary(errors(timed, known))
        scores["left_out"][f"{gpu} tensor, products of another source"] = summary(left_out(timed, known, free))
    write("kernel_fit.yaml", HEADER, document)
    write("kernel_errors.yaml", ERRORS_HEADER, scores)
    fit_document.cache_clear()
    constants_for.cache_clear()


if __name__ == "__main__":
    main()
