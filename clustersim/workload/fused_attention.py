"""Attention as one kernel that keeps the scores on the chip: FlashAttention (Dao et al., arXiv:2205.14135).

In a model it is two layers, the product of queries and keys, which writes nothing, and that of weights and values,
which reads values alone. Their FLOP say what is computed: half of all pairs where a mask lets tokens see earlier ones
only and the kernel skips the rest. Backward computes the scores once more, five products where forward has two. Per
sample the kernels take

    max(FLOP / (utilisation x peak), bytes / memory rate)

with the bytes of queries, keys, values and what is written, once forward and twice backward, and none of the scores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from clustersim.errors import InputError
from clustersim.workload.kernel_constants import KernelConstants
from clustersim.workload.kernel_model import Phase, Product
from clustersim.workload.layer import Layer, Model

AttentionKernel = Literal["flash-attention", "flash-attention-2", "flash-attention-3", "cudnn"]


class Utilisation(NamedTuple):
    """Shares of the tensor cores' peak, forward and backward."""

    forward: float
    backward: float


UTILISATION = {"ga100-tensor": Utilisation(0.615, 0.615), "gh100-tensor": Utilisation(0.33, 0.317)}
"""What FlashAttention-2 reaches, by the chip whose constants a GPU has, with heads of 128 features.

Ampere: the middle of 50 to 73 % of an A100 (Dao, arXiv:2307.08691, abstract), both ways. Hopper: 319 and 333 TFLOP/s
forward behind a causal mask, 310 and 318 backward without one, of 4,096 and 8,192 tokens on an H100 of 989 (Shah et
al., arXiv:2407.08608, charts of speed, by a transcript of their labels; its abstract has 35 %). Blackwell, which has
Hopper's constants, is assumed to have this of it too. Elsewhere, and without tensor cores, that of other products is
assumed.
"""

FIRST_UTILISATION = {"ga100-tensor": Utilisation(0.325, 0.325), "gh100-tensor": Utilisation(0.174, 0.168)}
"""The same of the first FlashAttention, which models trained before the summer of 2023 have (`flash: 1` of a layer).

Ampere: the middle of 25 to 40 % (Dao, arXiv:2307.08691, abstract). Hopper: assumed to be as much less than
FlashAttention-2's there as on Ampere.
"""

CUDNN = 9
"""What `flash` of a layer is where the kernel is cuDNN 9's."""

NEWER_UTILISATION = {
    3: {**UTILISATION, "gh100-tensor": Utilisation(0.597, 0.556)},
    CUDNN: {**UTILISATION, "gh100-tensor": Utilisation(0.529, 0.514)},
}
"""The same of FlashAttention-3 (`flash: 3`) and of cuDNN 9 (`flash: 9`), which are FlashAttention-2's but on Hopper.

Forward 579 and 602 TFLOP/s, backward 542 and 559; cuDNN 518 and 529, 499 and 518: from the same charts.
"""


KERNELS: dict[AttentionKernel, int] = {
    "flash-attention": 1,
    "flash-attention-2": 2,
    "flash-attention-3": 3,
    "cudnn": CUDNN,
}
"""What `flash` of a layer is, by the kernel's name in a scenario."""


def with_kernel(model: Model, kernel: AttentionKernel) -> Model:
    """Return a model whose fused attentions, all of them, are of one kernel, whatever else would choose it.

    >>> from clustersim.workload.catalogue import load_model
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
    known = {1: FIRST_UTILISATION, **NEWER_UTILISATION}.get(shape.get("flash", flash), UTILISATION)
    published = known.get(constants.chip)
    utilisation = published and (published.forward if forward else published.backward)
    return [
        Product(
            rows=shape["outputs"],
            columns=shape["rows"],
            inner=shape["inputs"],
            count=count,
            num_bytes=moved * (1 if forward else 2),
            efficiency=constants.efficiency[f"matmul_{phase}"] if utilisation is None else utilisation,
            tile_half=constants.shape.matmul_tile_half,
            prologue=0.0,
            occupancy_half=constants.shape.matmul_occupancy_half,
            launches=constants.shape.launches("matmul"),
        )
    ]
