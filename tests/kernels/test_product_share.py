"""Kernels of GPUs that no fit covers: large products reach the share of the peak on the sheet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_constants import constants_for, constants_of
from clustersim.kernels.kernel_model import gemm_seconds, plain_gemm, rates_of

MEASURED = {"mi300x": 708e12, "mi325x": 843e12}
"""FLOP/s in BF16 of products of 4,096 x 4,864 x 32,896 (AMD, Measuring Max-Achievable FLOPs, part 2)."""


def rate(name: str, rows: int, columns: int, inner: int) -> float:
    gpu = load_gpu(name)
    gemm = plain_gemm(rows, columns, inner, 1, "forward", constants_of(gpu, "tensor"), 2.0)
    return (
        2.0
        * rows
        * columns
        * inner
        / float(gemm_seconds([gemm], rates_of(gpu, "amp-bf16"), constants_of(gpu, "tensor"))[0])
    )


@pytest.mark.parametrize("name", MEASURED)
def test_large_products_reach_the_measured_rate(name: str) -> None:
    assert rate(name, 4096, 4864, 32896) == pytest.approx(MEASURED[name], rel=0.01)


def test_small_products_reach_less() -> None:
    assert rate("mi300x", 1024, 1024, 1024) < 0.5 * MEASURED["mi300x"]


def test_only_tensor_cores_have_it() -> None:
    gpu = load_gpu("mi300x")
    assert constants_of(gpu, "ordinary") == constants_for("other", "ordinary")
    assert constants_of(replace(gpu, product_share=None), "tensor") == constants_for("other", "tensor")
    assert constants_of(gpu, "tensor").source.endswith(gpu.sources["product_share"])
