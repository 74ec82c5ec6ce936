"""What is kept where every second product of a block is, and the rest made again: torchtitan's selective checkpoints.

Under `create_selective_checkpoint_contexts` (torch/utils/checkpoint.py) the outputs of the operators on a list are
kept, and everything else of the block is made again from its input, also what the kept products read. torchtitan keeps
attention and of every two matrix products the first (`torchtitan/parallelisms/parallelize_llama.py`, 2024: "every
second mm"). A matrix here that a gate reads both halves of is two there, of which one is kept, and the product after
the gate is the third.
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.memory import GATES, PRODUCTS
from clustersim.model import Layer


def fused_blocks(layers: Sequence[Layer], starts: Sequence[int]) -> list[range]:
    """Return the blocks of a transformer whose attention is fused, of those that begin at `starts`."""
    blocks = [range(start, end) for start, end in zip(starts, [*starts[1:], len(layers)], strict=True)]
    return [block for block in blocks if any(is_fused(layers[number]) for number in block)]


def repeats_input(layers: Sequence[Layer], again: Sequence[bool]) -> list[bool]:
    """Return which layers of a block keep their output, while what they read is made again [num_layers].

    Those are products with weights, in a block whose attention is fused and of which more than that is made again.
    """
    beyond = (repeats and layer.op != "matmul" for layer, repeats in zip(layers, again, strict=True))
    if not any(beyond) or not any(map(is_fused, layers)):
        return [False] * len(layers)
    return [
        layer.op in PRODUCTS and not is_fused(layer) and not repeats
        for layer, repeats in zip(layers, again, strict=True)
    ]


def kept_of_products(
    layers: Sequence[Layer], again: Sequence[bool], kept: Sequence[float], element_bytes: float
) -> list[float]:
    """Return what layers keep where a product's output is kept, and what reads it is made again [num_layers].

    Of two matrices that a gate reads and that are one here, half is kept where every second product is, and, here
    beside it, the output of the product that follows; the other half is made again with the gate. Where all products
    with weights are kept (`clustersim.parallelism.pointwise`) both halves are, and every output that a layer reads
    which is made again for more than itself.
    """
    found, reads = list(kept), repeats_input(layers, again)
    weighs = [layer.op in PRODUCTS and layer.op != "matmul" for layer in layers]
    keeps_all = any(reads) and not any(repeats and each for repeats, each in zip(again, weighs, strict=True))
    for number in range(1, len(layers) - 1):
        before, layer, after = layers[number - 1 : number + 2]
        if not again[number] or again[number - 1] or before.op not in PRODUCTS:
            continue
        if keeps_all:
            if weighs[number - 1] and (again[number + 1] or reads[number + 1]):
                found[number - 1] = max(found[number - 1], before.output_elements * element_bytes)
        elif layer.op in GATES and layer.input_elements == 2 * layer.output_elements and after.op in PRODUCTS:
            half = found[number - 1] / 2
            found[number - 1] = half + after.output_elements * element_bytes
            found[number] += half
    return found
