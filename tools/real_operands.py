"""What products of random numbers reach of the rate of DeepBench's, whose operands in 16 bits are zeros.

DeepBench draws its operands evenly from 0 to 1 and copies them to 16-bit integers, which cuts each of them to 0
(code/nvidia/tensor.h, `rand`, commit 06748034; gemm_bench.cu, commit 60bea701, multiplies these as halves). What does
not switch draws no power but what leaks, so zeros run at a clock that random numbers cannot have below the same limit
of power: on an A100 295 TFLOP/s against 257, products of 8,192 rows and columns (He, "Strangely, Matrix Multiplications
on GPUs Run Faster When Given Predictable Data", thonking.ai, 2024). FP32 operands are drawn and stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from chip_fit import MATMULS

from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import gemm_seconds, plain_gemm, rates_of

CHIP = "gv100-tensor"
SQUARES = ((1024, 57.30), (2048, 78.23), (4096, 95.73), (8192, 97.36), (10240, 89.37), (8192, 96.0))
"""Rows, columns and inner dimension, and TFLOP/s of PyTorch's `a @ b` of normal numbers in 16 bits on a V100 SXM2:
zzc0721/torch-performance-test-data, issue 140 (2026); the last mli/transformers-benchmarks, matmul.ipynb, commit
19fe7896 (2022)."""


def square_errors(known: KernelConstants) -> np.ndarray:
    """Return log(model / measured) of the seconds of each square, [num_squares].

    Rows lie one behind the other, so to BLAS, which counts columns, neither operand is transposed.
    """
    sizes = [size for size, _ in SQUARES]
    products = [plain_gemm(size, size, size, 1, "backward_data", known, 2.0) for size in sizes]
    seconds = gemm_seconds(products, rates_of(load_gpu("v100"), "amp-fp16"), known)
    measured_s = np.array([2.0 * size**3 / (rate * 1e12) for size, rate in SQUARES])
    logarithms: np.ndarray = np.log(seconds / measured_s)
    return logarithms


def with_real_operands(known: KernelConstants) -> KernelConstants:
    """Return constants whose shares of products meet the squares in their geometric mean."""
    for _ in range(5):  # launches do not scale, so step by step
        share = float(np.exp(np.mean(square_errors(known))))
        known = replace(
            known,
            efficiency={name: value * share if name in MATMULS else value for name, value in known.efficiency.items()},
        )
    return known
