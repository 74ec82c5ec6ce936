"""Attention as one kernel that keeps the scores on the chip: FlashAttention (Dao et al., arXiv:2205.14135).

In a model it is two layers, the product of queries and keys, which writes nothing, and that of weights and values,
which reads values alone. Their FLOP say what is computed: half of all pairs where a mask lets tokens see earlier ones
only and the kernel skips the rest. Backward computes the scores once more, five products where forward has two. Per
sample the kernels take

    max(FLOP / (utilisation x peak), bytes / memory rate)

with the bytes of queries, keys, values and what is written, once forward and twice backward, and none of the scores.
"""

from __future__ import annotations

from clustersim.workload.kernel_constants import KernelConstants
from clustersim.workload.kernel_model import Phase, Product
from clustersim.workload.layer import Layer

UTILISATION = {"ampere": 0.615, "hopper": 0.35}
"""Share of the tensor cores' peak that FlashAttention-2 reaches, by architecture.

Ampere: the middle of 50 to 73 % of an A100 (Dao, arXiv:2307.08691, abstract); Hopper: Shah et al., arXiv:2407.08608,
abstract. Elsewhere, and without tensor cores, that of other matrix products is assumed.
"""

FIRST_UTILISATION = {"ampere": 0.325, "hopper": 0.185}
"""The same of the first FlashAttention, which models trained before the summer of 2023 have (`flash: 1` of a layer).

Ampere: the middle of 25 to 40 % (Dao, arXiv:2307.08691, abstract). Hopper: assumed to be as much less than
FlashAttention-2's there as on Ampere.
"""


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
    layer: Layer, batch: int, phase: Phase, constants: KernelConstants, element_bytes: float, architecture: str
) -> list[Product]:
    """Return the work of one phase of such a layer as products [0 or 1]; backward that of the scores includes them."""
    shape, forward = layer.shape, phase == "forward"
    again = 0.0 if forward or layer.output_elements else layer.flop
    flop = again + (layer.flop if forward else layer.flop_backward_data)
    count = batch * flop / (2.0 * shape["rows"] * shape["inputs"] * shape["outputs"])
    moved = element_bytes * batch * (layer.input_elements + layer.output_elements)
    known = FIRST_UTILISATION if shape.get("flash") == 1 else UTILISATION
    utilisation = known.get(architecture) if constants.tensor else None
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
