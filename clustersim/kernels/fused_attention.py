"""Attention as one kernel that keeps the scores on the chip: FlashAttention (Dao et al., arXiv:2205.14135).

In a model it is two layers: the GEMM of queries and keys, which writes nothing, and that of weights and values,
which reads only values. Their FLOP are those that are computed: half of all pairs where a causal mask lets the kernel
skip the rest, fewer where a token sees only those in a window. Backward recomputes the scores, five
GEMMs where forward has two. Per sample the kernels take

    max(FLOP / (utilisation x peak), bytes / memory rate)

with the bytes of queries, keys, values and the output, once forward and twice backward, and none of the scores.
Where a chip's rates are known, a kernel of few heads and tokens also has a tail (`attention_rates.Tail`), and takes the
fixed time of a product's kernel on the GPU (assumed: no table has attention without the write to a cache).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from clustersim.errors import InputError
from clustersim.kernels.attention_rates import (
    ADA,
    AMPERE,
    BLACKWELL,
    BLACKWELL_RTX,
    DOCUMENT,
    HOPPER,
    QUERIES,
    RatesByWidth,
    Tail,
    block_utilisation,
    document_share,
    is_masked,
    pair_share,
    width_and_keys,
)
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import Gemm, Phase
from clustersim.model.layer import Layer, Model

AttentionKernel = Literal["flash-attention", "flash-attention-2", "flash-attention-3", "cudnn"]


RATES: Mapping[str, Mapping[int, RatesByWidth]] = {
    "ga100-tensor": AMPERE,
    "gh100-tensor": HOPPER,
    "gb100-tensor": BLACKWELL,
    "ad102-tensor": ADA,
    "gb202-tensor": BLACKWELL_RTX,
}
"""Utilisation by head width and sequence length, for chips with published values, by the chip of a GPU's constants.

On other chips, and without tensor cores, attention is assumed to have the efficiency of other GEMMs.
"""

TAILS: Mapping[str, Tail] = {
    "ga100-tensor": Tail(108, 0.426),
    "gh100-tensor": Tail(132, 0.28),
    "gb100-tensor": Tail(148, 0.766),
    "ad102-tensor": Tail(142, 0.153),
    "gb202-tensor": Tail(188, 0.214),
}
"""Tails of these chips, fitted to the same tables (`tools/attention_fit.py`), also with the charts' limits."""

FIRST_BY_SECOND = 0.325 / 0.615
"""Assumed ratio of FlashAttention 1 (`flash: 1` of a layer, for models trained before the summer of 2023) to
FlashAttention-2 on Hopper. It is as on Ampere, the middle of 25 to 40 % by that of 50 to 73 % (Dao, arXiv:2307.08691,
abstract).
"""

CUDNN = 9
"""Value of `flash` of a layer for cuDNN 9's kernel. cuDNN 9 and FlashAttention-3 (`flash: 3`) have the rate of
FlashAttention-2 except on Hopper.
"""

KERNELS: dict[AttentionKernel, int] = {
    "flash-attention": 1,
    "flash-attention-2": 2,
    "flash-attention-3": 3,
    "cudnn": CUDNN,
}
"""Value of `flash` of a layer, by the kernel's name in a scenario."""


@cached_by_identity(16)
def with_kernel(model: Model, kernel: AttentionKernel) -> Model:
    """Return a model in which every fused attention has this kernel, overriding any other choice.

    >>> from clustersim.model.catalogue import load_model
    >>> [each.shape["flash"] for each in with_kernel(load_model("llama-2-7b"), "cudnn").layers if is_fused(each)][:2]
    [9, 9]
    """
    if not any(is_fused(layer) for layer in model.layers):
        message = f"attention: {kernel} is the kernel of a fused attention, and {model.name} has none; drop it"
        raise InputError(message, got=kernel, allowed="no attention", key="compute.attention")
    flash = KERNELS[kernel]
    return replace(
        model,
        layers=tuple(
            replace(layer, shape={**layer.shape, "flash": flash}) if is_fused(layer) else layer
            for layer in model.layers
        ),
    )


def is_fused(layer: Layer) -> bool:
    """Return whether a layer is part of a fused attention: its scores are not written, or its weights are not read."""
    return layer.op == "matmul" and bool(layer.shape) and (not layer.output_elements or reads_values_alone(layer))


def reads_values_alone(layer: Layer) -> bool:
    """Return whether an attention GEMM multiplies values by weights that were never written.

    A GEMM that reads weights reads values too, so it reads more elements than the values of as many heads as there are
    queries.
    """
    values = layer.shape["inputs"] * layer.shape["outputs"] * layer.shape["count"]
    return layer.output_elements > 0 and layer.input_elements <= values


def published_utilisation(layer: Layer, forward: bool, chip: str, kernel: int) -> float | None:
    """Return the published share of a chip's peak that a kernel reaches; None where none was published."""
    by_kernel = RATES.get(chip)
    if by_kernel is None:
        return None
    second = by_kernel[KERNELS["flash-attention-2"]]
    factor = FIRST_BY_SECOND if kernel == KERNELS["flash-attention"] and kernel not in by_kernel else 1.0
    width, keys = width_and_keys(layer)
    keys = min(keys, layer.shape.get(DOCUMENT, keys))
    blocks = layer.shape.get("blocks", 1)
    share = pair_share(layer)
    rates = by_kernel.get(kernel, second)
    return factor * block_utilisation(rates, width, keys, forward, is_masked(layer), blocks, share)


def fused_attention_gemms(
    layer: Layer, batch: int, phase: Phase, constants: KernelConstants, element_bytes: float, flash: int = 2
) -> list[Gemm]:  # fmt: skip
    """Return the work of one phase of such a layer as GEMMs [0 or 1]; backward of the scores includes their
    recomputation.

    `flash` is the kernel of a layer that does not specify one.
    """
    shape, forward = layer.shape, phase == "forward"
    recomputed = 0.0 if forward or layer.output_elements else layer.flop
    flop = recomputed + (layer.flop if forward else layer.flop_backward_data)
    is_kernel = layer.output_elements > 0  # one kernel for both layers
    count = batch * flop / (2.0 * shape["rows"] * shape["inputs"] * shape["outputs"])
    moved = element_bytes * batch * (layer.input_elements + layer.output_elements)
    is_timed = constants.chip in RATES  # the rate includes tiles and waves
    utilisation = published_utilisation(layer, forward, constants.chip, shape.get("flash", flash))
    if utilisation is not None:
        share = document_share(layer)  # documents leave all blocks of queries, with fewer keys each
        count, utilisation = count / share, utilisation / share
        blocks = batch * shape["count"] * -(-shape["rows"] // QUERIES)
        utilisation /= TAILS[constants.chip].factor(blocks, shape["rows"], is_masked(layer), pair_share(layer))
    return [
        Gemm(
            rows=shape["outputs"],
            columns=shape["rows"],
            inner=shape["inputs"],
            count=count,
            num_bytes=moved * (1 if forward else 2),
            efficiency=constants.efficiency[f"matmul_{phase}"] if utilisation is None else utilisation,
            tile_half=0.0 if is_timed else constants.shape.matmul_tile_half,
            prologue=0.0,
            occupancy_half=0.0 if is_timed else constants.shape.matmul_occupancy_half,
            launches=0.0 if is_timed else constants.shape.launches("matmul"),
            fixed_s=constants.products.kernel_s if constants.products and is_kernel else 0.0,
        )
    ]
