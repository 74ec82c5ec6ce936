"""Linear layers whose GEMMs run in 8 or 4 bits, between layers in 16 bits.

Operands are in 16 bits before. For each GEMM both operands are cast by separate kernels (`casts`). Results are written
in 16 bits. The last layer stays in 16 bits, as in torchtitan (`torchtitan/float8.py`), and so does attention. Experts'
GEMMs run in FP8 with TransformerEngine ("FP8 Training" of its grouped GEMMs; Megatron-LM,
megatron/core/transformer/moe/README.md, commit 022bcb5a), and in 16 bits with torchao, which converts only linear
layers. The share of peak of a GEMM is its chip's `fp8_share` or `nvfp4_share` times its share in 16 bits
(`tensor_products`), `PEAK_RATIO` where that is not known. GEMMs with scales of rows and of blocks have the rate of
those with one scale (assumed): block by block an H800 reaches 1,550 TFLOP/s, 78 % of its peak (deepseek-ai/DeepGEMM,
README.md, commit 0274ad7b), where cuBLAS with one scale reaches 71 to 78 % on Hopper. NVIDIA's recipe for NVFP4
(arXiv:2509.25149) keeps some 16 % of the linear layers in 16 bits, most of them at the end: `casts.wide_share`. Left
out: weights that are gathered in FP8, and casts that a compiler fuses with the kernel before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor

from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import Gemm, Phase
from clustersim.model.casts import NARROW_BYTES, TORCHAO, Casts
from clustersim.model.layer import Layer, Model
from clustersim.model.precision import PRECISIONS

PEAK_RATIO = 0.904
"""Share of the FP8 peak over share of the 16-bit peak: 70.9 by 80.3 % on an H100, 77.6 by 83.8 % on a GH200, each at
its best shape (stas00/ml-engineering, compute/accelerator/README.md, commit b9e29720, 2025); their geometric mean.
Assumed in 4 bits too, where no table has them.
"""


def narrow_share(constants: KernelConstants, precision: str) -> float:
    """Return the share of the narrow peak over that of the 16-bit peak that GEMMs reach on a chip.

    >>> from clustersim.kernels.kernel_constants import constants_for
    >>> hopper, volta = (constants_for(each, "tensor") for each in ("hopper", "volta"))
    >>> round(narrow_share(hopper, "amp-fp8"), 2), narrow_share(volta, "amp-fp8")
    (0.93, 0.904)
    """
    products = constants.products
    known = products and (products.nvfp4_share if precision == "amp-nvfp4" else products.fp8_share)
    return known or PEAK_RATIO


def narrow_layers(layers: Sequence[Layer], precision: str, casts: Casts = TORCHAO) -> list[bool]:
    """Say of which layers the GEMMs run in 8 or 4 bits in a precision [num_layers]."""
    if not PRECISIONS[precision].base:
        return [False] * len(layers)
    readers = (*layers[1:], None)
    found = [_is_narrow(layer, reader, casts) for layer, reader in zip(layers, readers, strict=True)]
    wide = floor(casts.wide_share * sum(found) + 1e-9)
    for index in reversed(range(len(layers))):
        if wide and found[index]:
            found[index], wide = False, wide - 1
    return found


_NONE = frozenset[str]()


def narrow_inputs(model: Model, precision: str, casts: Casts = TORCHAO) -> frozenset[str]:
    """Return the names of layers that store their input in 8 or 4 bits for the gradient of weights.

    TransformerEngine stores the copy that it made in MXFP8 or NVFP4; torchao stores what it reads.
    """
    return _narrow_inputs(model, precision, casts) if casts.stores_narrow and PRECISIONS[precision].base else _NONE


@cached_by_identity(16)
def _narrow_inputs(model: Model, precision: str, casts: Casts) -> frozenset[str]:
    found = narrow_layers(model.layers, precision, casts)
    return frozenset(layer.name for layer, is_narrow in zip(model.layers, found, strict=True) if is_narrow)


def _is_narrow(layer: Layer, reader: Layer | None, casts: Casts) -> bool:
    has_experts = not casts.kind.startswith("torchao")
    is_linear = layer.op == "fully-connected" or (layer.op == "experts" and has_experts)
    return is_linear and reader is not None and reader.op != "loss"


def narrow_gemm(
    gemm: Gemm, layer: Layer, phase: Phase, batch: int, gain: float, share: float, casts: Casts, precision: str
) -> Gemm:
    """Return a layer's narrow GEMM with its casts, given its 16-bit GEMM.

    The narrow peak rate is `gain` times higher, and `share` is that of the peak which a GEMM reaches (`narrow_share`).
    """
    shape = layer.shape
    weights = float(shape["inputs"] * shape["outputs"] * shape["count"])
    cast, num_casts = casts.elements(batch * layer.input_elements, batch * layer.output_elements, weights, phase)
    saved = 2 - NARROW_BYTES[precision]
    return replace(
        gemm,
        efficiency=gemm.efficiency * gain * share,
        num_bytes=gemm.num_bytes - saved * (gemm.count * gemm.inner * (gemm.rows + gemm.columns)),
        layout_bytes=gemm.layout_bytes + casts.num_bytes * cast,
        launches=gemm.launches + casts.num_kernels * num_casts,
    )
