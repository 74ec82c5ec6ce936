"""Attention as one kernel that keeps the scores on the chip: FlashAttention (Dao et al., arXiv:2205.14135).

In a model it is two layers, the product of queries and keys, which writes nothing, and that of weights and values,
which reads values alone. Their FLOP say what is computed: half of all pairs where a mask lets tokens see earlier ones
only and the kernel skips the rest. Backward computes the scores once more, five products where forward has two. Per
sample the kernels take

    max(FLOP / (utilisation x peak), bytes / memory rate)

with the bytes of queries, keys, values and what is written, once forward and twice backward, and none of the scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from clustersim.errors import InputError
from clustersim.kernels.attention_rates import AMPERE, HOPPER, ByWidth, block_utilisation, is_masked, width_and_keys
from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import Phase, Product
from clustersim.kernels.memo import once
from clustersim.model.layer import Layer, Model

AttentionKernel = Literal["flash-attention", "flash-attention-2", "flash-attention-3", "cudnn"]


RATES: Mapping[str, Mapping[int, ByWidth]] = {"gh100-tensor": HOPPER, "ga100-tensor": AMPERE}
"""What kernels reach by heads and sequences, of chips where that was published, by the constants that a GPU has.

Blackwell, which has Hopper's constants, is assumed to have these shares of its peak too. Elsewhere, and without tensor
cores, that of other products is assumed.
"""

FIRST_BY_SECOND = 0.325 / 0.615
"""What the first FlashAttention, which models trained before the summer of 2023 have (`flash: 1` of a layer), is
assumed to reach of what the second does on Hopper: as on Ampere, the middle of 25 to 40 % by that of 50 to 73 % (Dao,
arXiv:2307.08691, abstract).
"""

CUDNN = 9
"""What `flash` of a layer is where the kernel is cuDNN 9's. It and FlashAttention-3 (`flash: 3`) are FlashAttention-2's
but on Hopper.
"""

KERNELS: dict[AttentionKernel, int] = {
    "flash-attention": 1,
    "flash-attention-2": 2,
    "flash-attention-3": 3,
    "cudnn": CUDNN,
}
"""What `flash` of a layer is, by the kernel's name in a scenario."""


@once(16)
def with_kernel(model: Model, kernel: AttentionKernel) -> Model:
    """Return a model whose fused attentions, all of them, are of one kernel, whatever else would choose it.

    >>> from clustersim.model.catalogue import load_model
    >>> [each.shape["flash"] for each in with_kernel(load_model("llama-2-7b"), "cudnn").layers if is_fused(each)][:2]
    [9, 9]
    """
    if not any(is_fused(layer) for layer in model.layers):
        message = f"attention: {kernel} is the kernel of a fused attention, and {model.name} has none; drop it"
        raise InputError(message, got=kernel, allowed="no attention")
    flash = KERNELS[kernel]
    return replace(
        model,
        layers=tuple(
            replace(layer, shape={**layer.shape, "flash": flash}) if is_fused(layer) else layer
            for layer in model.layers
        ),
    )


def is_fused(layer: Layer) -> bool:
    """Return whether a layer is part of a fused attention: scores that nobody writes, or weights that nobody reads."""
    return layer.op == "matmul" and bool(layer.shape) and (not layer.output_elements or reads_values_alone(layer))


def reads_values_alone(layer: Layer) -> bool:
    """Return whether a product of an attention mixes values by weights that were never written.

    What reads weights reads values beside them, so more than values of as many heads as there are queries.
    """
    values = layer.shape["inputs"] * layer.shape["outputs"] * layer.shape["count"]
    return layer.output_elements > 0 and layer.input_elements <= values


def published_utilisation(layer: Layer, forward: bool, chip: str, kernel: int) -> float | None:
    """Return the share of a chip's peak that a kernel was published to reach, None where it was not."""
    by_kernel = RATES.get(chip)
    if by_kernel is None:
        return None
    second = by_kernel[KERNELS["flash-attention-2"]]
    slower = FIRST_BY_SECOND if kernel == KERNELS["flash-attention"] and kernel not in by_kernel else 1.0
    width, keys = width_and_keys(layer)
    blocks = layer.shape.get("blocks", 1)
    return slower * block_utilisation(by_kernel.get(kernel, second), width, keys, forward, is_masked(layer), blocks)


def fused_products(
    layer: Layer, batch: int, phase: Phase, constants: KernelConstants, element_bytes: float, flash: int = 2
) -> list[Product]:  # fmt: skip
    """Return the work of one phase of such a layer as products [0 or 1]; backward that of the scores includes them.

    `flash` is the kernel of a layer that does not say which.
    """
    shape, forward = layer.shape, phase == "forward"
    again = 0.0 if forward or layer.output_elements else layer.flop
    flop = again + (layer.flop if forward else layer.flop_backward_data)
    count = batch * flop / (2.0 * shape["rows"] * shape["inputs"] * shape["outputs"])
    moved = element_bytes * batch * (layer.input_elements + layer.output_elements)
    is_timed = constants.chip in RATES  # with its own tiles, waves and launch
    utilisation = published_utilisation(layer, forward, constants.chip, shape.get("flash", flash))
    return [
        Product(
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
        )
    ]
