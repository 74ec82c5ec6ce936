"""Locally connected layers (local receptive fields without weight sharing): one dense GEMM for each image position."""

from __future__ import annotations

import math
from collections.abc import Mapping

from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import Gemm, Phase, layer_gemm


def locally_connected_gemms(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Gemm]:
    """Return one phase of a locally connected layer: a separate GEMM for each block of neurons.

    `shape` is that of a convolution, with `block`: the neurons of block x block neighbouring positions share one
    receptive field. Each GEMM therefore has block^2 filters rows, kernel_h kernel_w channels inputs, and the samples of
    the batch as columns (Coates et al., 2013, section 4, recalled). Blocks that are cut by the edge have fewer neurons;
    all are costed as their mean. Left out: inputs that neighbouring blocks both read and that a cache holds.

    >>> shape = {"channels": 3, "filters": 6, "kernel_h": 18, "kernel_w": 18, "out_height": 8, "out_width": 8}
    >>> from clustersim.kernels.kernel_constants import constants_for
    >>> [gemm] = locally_connected_gemms({**shape, "block": 4}, 96, "forward", constants_for("kepler", "ordinary"))
    >>> gemm.rows, gemm.inner, gemm.columns, gemm.count
    (96.0, 972, 96, 4)
    """
    sides = shape["out_height"], shape["out_width"]
    return _gemms(shape, sides, False, batch, phase, constants, element_bytes)


def transposed_locally_connected_gemms(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Gemm]:
    """Return one phase of the transposed layer: the same GEMMs with inputs and outputs exchanged.

    `filters` are the feature maps that it reads, `channels` those that it writes, stride x stride positions for each.
    """
    sides = -(-shape["out_height"] // shape["stride_h"]), -(-shape["out_width"] // shape["stride_w"])
    return _gemms(shape, sides, True, batch, phase, constants, element_bytes)


def _gemms(
    shape: Mapping[str, int], sides: tuple[int, int], is_transposed: bool, batch: int, phase: Phase,
    constants: KernelConstants, element_bytes: float,
) -> list[Gemm]:  # fmt: skip
    """Return the GEMMs of blocks that cover `sides`, (height, width), in neurons of one feature map."""
    field = shape["kernel_h"] * shape["kernel_w"] * shape["channels"]
    count = math.prod(-(-side // shape["block"]) for side in sides)
    neurons = shape["filters"] * math.prod(sides) / count
    inputs, outputs = (neurons, field) if is_transposed else (field, neurons)
    return [layer_gemm(batch, inputs, outputs, count, phase, constants, element_bytes)]
