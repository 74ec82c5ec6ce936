"""Linear layers whose GEMMs run in FP8, between layers in 16 bits: Float8 training.

Operands are in 16 bits before, and are kept in 16 bits for backward. For each GEMM both operands are cast by separate
kernels (`casts`). Results are written in 16 bits. The last layer stays in 16 bits, as in torchtitan
(`torchtitan/float8.py`), and so does attention. Experts' GEMMs run in FP8 with TransformerEngine
("FP8 Training" of its grouped GEMMs; Megatron-LM, megatron/core/transformer/moe/README.md, commit 022bcb5a), and in
16 bits with torchao, which converts only linear layers. The share of peak of a GEMM is its chip's `fp8_share` times
its share in 16 bits (`tensor_products`), `FP8_PEAK_RATIO` where that is not known. Left out: weights that are gathered
in FP8, and casts that a compiler fuses with the kernel before.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import Gemm, Phase
from clustersim.model.casts import TORCHAO, Casts
from clustersim.model.layer import Layer

FP8_PEAK_RATIO = 0.904
"""Share of the FP8 peak over share of the 16-bit peak: 70.9 by 80.3 % on an H100, 77.6 by 83.8 % on a GH200, each at
its best shape (stas00/ml-engineering, compute/accelerator/README.md, commit b9e29720, 2025); their geometric mean.
"""


def fp8_share(constants: KernelConstants) -> float:
    """Return the share of the FP8 peak over that of the 16-bit peak that GEMMs reach on a chip.

    >>> from clustersim.kernels.kernel_constants import constants_for
    >>> round(fp8_share(constants_for("hopper", "tensor")), 2), fp8_share(constants_for("volta", "tensor"))
    (0.93, 0.904)
    """
    return (constants.products and constants.products.fp8_share) or FP8_PEAK_RATIO


def runs_in_fp8(layer: Layer, reader: Layer | None, casts: Casts = TORCHAO) -> bool:
    """Say whether the GEMMs of a layer run in FP8; `reader` is the layer after it."""
    is_linear = layer.op == "fully-connected" or (layer.op == "experts" and casts.kind != "torchao")
    return is_linear and reader is not None and reader.op != "loss"


def fp8_gemm(gemm: Gemm, layer: Layer, phase: Phase, batch: int, gain: float, casts: Casts = TORCHAO) -> Gemm:
    """Return a layer's FP8 GEMM with its casts, given its 16-bit GEMM; the FP8 peak rate is `gain` times higher."""
    shape = layer.shape
    weights = float(shape["inputs"] * shape["outputs"] * shape["count"])
    cast, num_casts = casts.elements(batch * layer.input_elements, batch * layer.output_elements, weights, phase)
    return replace(
        gemm,
        efficiency=gemm.efficiency * gain * (gemm.fp8_share or FP8_PEAK_RATIO),
        num_bytes=gemm.num_bytes - gemm.count * gemm.inner * (gemm.rows + gemm.columns),
        layout_bytes=gemm.layout_bytes + casts.num_bytes * cast,
        launches=gemm.launches + casts.num_kernels * num_casts,
    )
