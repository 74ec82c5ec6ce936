"""Layers of local receptive fields whose weights are not shared: a dense product for each place of the image."""

from __future__ import annotations

import math
from collections.abc import Mapping

from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import Phase, Product, matmul


def local_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return one phase of a locally connected layer: a product of its own for each block of neurons.

    `shape` is that of a convolution, with `block`: neurons of block x block neighbouring positions have one field, so
    that each product has block^2 filters rows of kernel_h kernel_w channels inputs, and the samples of the batch as
    columns (Coates et al., 2013, section 4, recalled). Blocks that the edge cuts have the neurons that are left; all
    are costed as their mean. Left out: what neighbouring blocks read twice and a cache has.

    >>> shape = {"channels": 3, "filters": 6, "kernel_h": 18, "kernel_w": 18, "out_height": 8, "out_width": 8}
    >>> from clustersim.kernels.kernel_constants import constants_for
    >>> [product] = local_products({**shape, "block": 4}, 96, "forward", constants_for("kepler", "ordinary"))
    >>> product.rows, product.inner, product.columns, product.count
    (96.0, 972, 96, 4)
    """
    sides = shape["out_height"], shape["out_width"]
    return _products(shape, sides, False, batch, phase, constants, element_bytes)


def transposed_local_products(
    shape: Mapping[str, int], batch: int, phase: Phase, constants: KernelConstants, element_bytes: float = 4.0
) -> list[Product]:
    """Return one phase of the layer that goes the way back: the same products with inputs and outputs exchanged.

    `filters` are the maps that it reads, `channels` those that it writes, stride x stride positions for each it reads.
    """
    sides = -(-shape["out_height"] // shape["stride_h"]), -(-shape["out_width"] // shape["stride_w"])
    return _products(shape, sides, True, batch, phase, constants, element_bytes)


def _products(
    shape: Mapping[str, int], sides: tuple[int, int], is_transposed: bool, batch: int, phase: Phase,
    constants: KernelConstants, element_bytes: float,
) -> list[Product]:  # fmt: skip
    """Return the products of blocks that cover `sides`, high and wide, in neurons of one map."""
    field = shape["kernel_h"] * shape["kernel_w"] * shape["channels"]
    count = math.prod(-(-side // shape["block"]) for side in sides)
    neurons = shape["filters"] * math.prod(sides) / count
    inputs, outputs = (neurons, field) if is_transposed else (field, neurons)
    return [matmul(batch, inputs, outputs, count, phase, constants, element_bytes)]
