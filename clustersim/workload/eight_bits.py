"""Linear layers whose products are in 8 bits, between layers in 16: Float8 training.

What is multiplied is in 16 bits before, and is kept so for backward. For each product both factors are cast: a kernel
finds the largest element, a second one reads them again and writes 8 bits, 5 bytes an element. Forward that is the
input and the weights, backward the output's gradient and the weights, and then the input (its gradient is there
already); results are written in 16 bits. Counted in torchao, `torchao/float8/float8_linear.py`
(`matmul_with_hp_or_float8_args`), dynamic scales for whole tensors. The last layer is left in 16 bits, as torchtitan
has it (`torchtitan/float8.py`), and so is attention. A product reaches `PEAK_SHARE` of what it reaches of the peak in
16 bits. Left out: weights that are gathered in 8 bits, and casts that a compiler joins with the kernel before.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.workload.kernel_model import Phase, Product
from clustersim.workload.layer import Layer

CAST_BYTES, CAST_KERNELS = 5.0, 2.0
"""Of a cast: bytes of an element that cross memory, and kernels."""

PEAK_SHARE = 0.904
"""Share of the peak in 8 bits by that in 16: 70.9 by 80.3 % on an H100, 77.6 by 83.8 % on a GH200, each at its best
shape (stas00/ml-engineering, compute/accelerator/README.md, commit b9e29720, 2025); their geometric mean."""


def in_eight_bits(layer: Layer, reader: Layer | None) -> bool:
    """Say whether the products of a layer are in 8 bits, `reader` being the layer after it."""
    return layer.op == "fully-connected" and reader is not None and reader.op != "loss"


def eight_bit_product(product: Product, layer: Layer, phase: Phase, batch: int, gain: float) -> Product:
    """Return a product of such a layer with its casts, from that in 16 bits whose peak rate is `gain` times lower."""
    shape = layer.shape
    weights = float(shape["inputs"] * shape["outputs"] * shape["count"])
    cast, num_casts = {
        "forward": (batch * layer.input_elements + weights, 2),
        "backward_data": (batch * layer.output_elements + weights, 2),
        "backward_weights": (batch * layer.input_elements, 1),
    }[phase]
    return replace(
        product,
        efficiency=product.efficiency * gain * PEAK_SHARE,
        num_bytes=product.num_bytes - product.count * product.inner * (product.rows + product.columns),
        layout_bytes=product.layout_bytes + CAST_BYTES * cast,
        launches=product.launches + CAST_KERNELS * num_casts,
    )
