"""Linear layers whose products are in 8 bits, between layers in 16: Float8 training.

What is multiplied is in 16 bits before, and is kept so for backward. For each product both factors are cast by kernels
of their own (`casts`); results are written in 16 bits. The last layer is left in 16 bits, as torchtitan has it
(`torchtitan/float8.py`), and so is attention. Experts' products are in 8 bits where TransformerEngine has them
("FP8 Training" of its grouped products; Megatron-LM, megatron/core/transformer/moe/README.md, commit 022bcb5a), and in
16 with torchao, which turns linear layers alone. A product reaches `PEAK_SHARE` of what it reaches of the peak in 16
bits. Left out: weights that are gathered in 8 bits, and casts that a compiler joins with the kernel before.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.kernels.kernel_model import Phase, Product
from clustersim.model.casts import TORCHAO, Casts
from clustersim.model.layer import Layer

PEAK_SHARE = 0.904
"""Share of the peak in 8 bits by that in 16: 70.9 by 80.3 % on an H100, 77.6 by 83.8 % on a GH200, each at its best
shape (stas00/ml-engineering, compute/accelerator/README.md, commit b9e29720, 2025); their geometric mean."""


def in_eight_bits(layer: Layer, reader: Layer | None, casts: Casts = TORCHAO) -> bool:
    """Say whether the products of a layer are in 8 bits, `reader` being the layer after it."""
    is_linear = layer.op == "fully-connected" or (layer.op == "experts" and casts.kind != "torchao")
    return is_linear and reader is not None and reader.op != "loss"


def eight_bit_product(
    product: Product, layer: Layer, phase: Phase, batch: int, gain: float, casts: Casts = TORCHAO
) -> Product:
    """Return a product of such a layer with its casts, from that in 16 bits whose peak rate is `gain` times lower."""
    shape = layer.shape
    weights = float(shape["inputs"] * shape["outputs"] * shape["count"])
    cast, num_casts = casts.elements(batch * layer.input_elements, batch * layer.output_elements, weights, phase)
    return replace(
        product,
        efficiency=product.efficiency * gain * PEAK_SHARE,
        num_bytes=product.num_bytes - product.count * product.inner * (product.rows + product.columns),
        layout_bytes=product.layout_bytes + casts.num_bytes * cast,
        launches=product.launches + casts.num_kernels * num_casts,
    )
