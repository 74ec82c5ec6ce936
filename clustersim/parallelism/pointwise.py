"""What of a transformer's blocks a compiler makes again in backward that keeps what products write, and nothing else.

That is JAX's `checkpoint_dots` (`save_dot_only` of Praxis, praxis/layers/repeats.py): norms, activation functions,
rotations and additions are made again, and so is a fused attention, which is a call of a library and no product.
MaxText's `minimal_flash` keeps what attention writes too (`checkpoint_dots_with_no_batch_dims` and what is named
`context`, MaxText/layers/models.py; TransformerEngine names it so, transformer_engine/jax/fused_attn.py). A block's
input is kept, and what comes after its last product is read by nobody in backward, so that it is not made again.
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.kernels.memory import PRODUCTS
from clustersim.model import Layer

POINTWISE = ("pointwise", "pointwise+attention")
"""Values of `recompute`: without attention and with it."""

_ATTENTION = "matmul"


def made_again(layers: Sequence[Layer], blocks: Sequence[range], with_attention: bool) -> list[bool]:
    """Return whose forward pass is repeated in backward [num_layers]: of each block all but products, up to its last.

    Both products of an attention are repeated where `with_attention` says so, and otherwise none.
    """
    again = [False] * len(layers)
    for block in blocks:
        products = [number for number in block if layers[number].op in PRODUCTS]
        for number in range(block.start, max(products, default=block.start)):
            op = layers[number].op
            again[number] = with_attention if op == _ATTENTION else op not in PRODUCTS
    return again
