"""Activation recomputation: which layers repeat their forward pass in the backward pass, and what the others store.

Recomputation (Chen et al., arXiv:1604.06174; Korthikanti et al., arXiv:2205.05198, section 5) stores only the input of
each block (`full`), or does not store what attention has for each pair of tokens (`attention`), or does not store what
no matrix product writes (`pointwise`).

`pointwise+attention` is JAX's `checkpoint_dots` (`save_dot_only` of Praxis, praxis/layers/repeats.py): norms,
activation functions, rotations and additions are recomputed, and so is a fused attention, which is a library call and
no matrix product. MaxText's `minimal_flash` (`pointwise`) also stores the output of attention
(`checkpoint_dots_with_no_batch_dims` and what is named `context`, MaxText/layers/models.py; TransformerEngine names it
so, transformer_engine/jax/fused_attn.py). A block's input is stored. What comes after its last matrix product is not
read in the backward pass, so it is not recomputed.

`selective` is torchtitan's selective checkpointing. Under `create_selective_checkpoint_contexts`
(torch/utils/checkpoint.py) the outputs of the operators on a list are stored, and everything else of the block is
recomputed from its input, also the inputs of the stored products. torchtitan stores the output of attention and of
every second matrix product, beginning with the first (`torchtitan/parallelisms/parallelize_llama.py`, 2024: "every
second mm"). A matrix whose two halves a gate reads is one layer here and two products there: one of the two is stored,
and the product after the gate is the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

from clustersim.errors import InputError
from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.memory import GATES, PRODUCTS
from clustersim.model import Layer
from clustersim.parallelism.stages import JOINS, cut_points

POINTWISE = ("pointwise", "pointwise+attention")
"""Values of `recompute`: without attention and with it."""

_ATTENTION = "matmul"


def block_starts(layers: Sequence[Layer]) -> list[int]:
    """Return the first layers of a model's blocks: layers whose weights and activations are handled together.

    A block ends where a single tensor goes on (`cut_points`). Layers after an attention up to the next attention belong
    to its block, so that a block of a transformer is one transformer layer. A plain chain of n layers with parameters
    has about sqrt(n) blocks with equally many of these layers (Chen et al., 2016, section 4.1).

    >>> from clustersim.model import load_model
    >>> layers = load_model("gpt2-small").layers
    >>> len(block_starts(layers)), layers[block_starts(layers)[1]].name
    (14, 'drop')
    """
    if not layers:
        return []
    if not any(layer.op in JOINS for layer in layers):
        trained = [number for number, layer in enumerate(layers) if layer.has_weights]
        each = ceil(sqrt(len(trained))) or 1
        return [0, *trained[each::each]]
    starts = [0, *(cut for cut in cut_points(layers) if 0 < cut < len(layers))]
    ends = [*starts[1:], len(layers)]
    attends = [
        any(layer.op == "matmul" for layer in layers[start:end]) for start, end in zip(starts, ends, strict=True)
    ]
    return [
        start
        for number, start in enumerate(starts)
        if attends[number] or number in (0, len(starts) - 1) or not attends[number - 1]
    ]


def recomputed(layers: Sequence[Layer], recompute: str | None) -> list[bool]:
    """Return which layers repeat their forward pass in the backward pass [num_layers].

    `full` repeats every block of a transformer, but neither its embedding nor its last layer, as Megatron-LM does; in
    other models everything but the last block, whose backward pass comes next. `attention` repeats the products of an
    attention and the layers between them. So does `selective`; but in blocks with fused attention, which stores no
    scores, it repeats every second matrix product and all layers that are no matrix product, as torchtitan does.
    """
    recomputes = [False] * len(layers)
    if recompute == "full" or recompute in POINTWISE:
        starts = block_starts(layers)
        blocks = [range(start, end) for start, end in zip(starts, [*starts[1:], len(layers)], strict=True)]
        attending = [block for block in blocks if any(layers[number].op == "matmul" for number in block)]
        if recompute in POINTWISE:
            return _pointwise(layers, attending, with_attention=recompute == "pointwise+attention")
        for block in attending or blocks[:-1]:
            recomputes[block.start : block.stop] = [True] * len(block)
    elif recompute == "attention":
        for first, last in _attentions(layers):
            recomputes[first : last + 1] = [True] * (last + 1 - first)
    elif recompute == "selective":
        for first, last in _attentions(layers):
            recomputes[first : last + 1] = [not is_fused(layers[first])] * (last + 1 - first)
        for block in _fused_blocks(layers, block_starts(layers)):
            attention = [number for number in block if is_fused(layers[number])]
            matrices = [number for number in block if layers[number].op in PRODUCTS and number not in attention]
            for number in {*block} - {*attention, *matrices[::2]}:
                recomputes[number] = True
    return recomputes


def in_first_blocks(recomputes: Sequence[bool], starts: Sequence[int], num_blocks: int | None) -> list[bool]:
    """Return which layers of a part repeat their forward pass if only the first `num_blocks` blocks do [num_layers].

    `recomputes` is `recomputed` for the part, `starts` where its blocks begin. Megatron-LM counts like this with its
    method `block` (`_checkpointed_forward` in megatron/core/transformer/transformer_block.py): blocks of a stage's
    chunk.

    >>> in_first_blocks([False, True, True, True, True], [0, 1, 3], 1)
    [False, True, True, False, False]
    """
    recomputing = _recomputing_blocks(recomputes, starts)
    end = recomputing[num_blocks] if num_blocks is not None and num_blocks < len(recomputing) else len(recomputes)
    return [is_repeated and number < end for number, is_repeated in enumerate(recomputes)]


def check_blocks(recomputes: Sequence[Sequence[bool]], starts: Sequence[Sequence[int]], num_blocks: int) -> None:
    """Raise InputError for more blocks than any part of a model has to recompute; both arguments are per part."""
    most = max(len(_recomputing_blocks(*part)) for part in zip(recomputes, starts, strict=True))
    if num_blocks > most:
        what = f"{most} block{'s' * (most != 1)}"
        raise InputError(
            f"no stage (or chunk of one) has more than {what} to recompute; leave recompute_blocks out for all of them",
            key="recompute_blocks",
            got=str(num_blocks),
            allowed=f"at most {most}" if most else "a model with such blocks",
        )


def _recomputing_blocks(recomputes: Sequence[bool], starts: Sequence[int]) -> list[int]:
    """Return the starts of the blocks in which a layer repeats its forward pass."""
    return [
        start for start, end in zip(starts, [*starts[1:], len(recomputes)], strict=True) if any(recomputes[start:end])
    ]


def _attentions(layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """Return the first and the last product of each attention: scores, and their product with the values."""
    products = [number for number, layer in enumerate(layers) if layer.op == "matmul"]
    return list(zip(products[::2], products[1::2], strict=False))


def _pointwise(layers: Sequence[Layer], blocks: Sequence[range], with_attention: bool) -> list[bool]:
    """Return which layers repeat their forward pass [num_layers]: all of a block but matrix products, up to its last.

    Both products of an attention are repeated if `with_attention`, otherwise none.
    """
    recomputes = [False] * len(layers)
    for block in blocks:
        products = [number for number in block if layers[number].op in PRODUCTS]
        for number in range(block.start, max(products, default=block.start)):
            op = layers[number].op
            recomputes[number] = with_attention if op == _ATTENTION else op not in PRODUCTS
    return recomputes


def _fused_blocks(layers: Sequence[Layer], starts: Sequence[int]) -> list[range]:
    """Return the blocks of a transformer with fused attention, of those that begin at `starts`."""
    blocks = [range(start, end) for start, end in zip(starts, [*starts[1:], len(layers)], strict=True)]
    return [block for block in blocks if any(is_fused(layers[number]) for number in block)]


def recomputes_input(layers: Sequence[Layer], recomputes: Sequence[bool]) -> list[bool]:
    """Return which layers of a block store their output, while their input is recomputed [num_layers].

    Those are products with weights, in a block with fused attention in which more than the attention is recomputed.
    """
    beyond = (is_repeated and layer.op != "matmul" for layer, is_repeated in zip(layers, recomputes, strict=True))
    if not any(beyond) or not any(map(is_fused, layers)):
        return [False] * len(layers)
    return [
        layer.op in PRODUCTS and not is_fused(layer) and not is_repeated
        for layer, is_repeated in zip(layers, recomputes, strict=True)
    ]


def kept_of_products(
    layers: Sequence[Layer], recomputes: Sequence[bool], kept: Sequence[float], element_bytes: float
) -> list[float]:
    """Return the bytes that layers store if a product's output is stored and its reader is recomputed [num_layers].

    Of two matrices that a gate reads, which are one layer here, half is stored if every second product is, and, counted
    here with it, the output of the product that follows; the other half is recomputed with the gate. If all products
    with weights are stored (`pointwise`), both halves are, and every output that a recomputed layer reads for others as
    well.
    """
    found, reads = list(kept), recomputes_input(layers, recomputes)
    weighs = [layer.op in PRODUCTS and layer.op != "matmul" for layer in layers]
    keeps_all = any(reads) and not any(
        is_repeated and each for is_repeated, each in zip(recomputes, weighs, strict=True)
    )
    for number in range(1, len(layers) - 1):
        before, layer, after = layers[number - 1 : number + 2]
        if not recomputes[number] or recomputes[number - 1] or before.op not in PRODUCTS:
            continue
        if keeps_all:
            if weighs[number - 1] and (recomputes[number + 1] or reads[number + 1]):
                found[number - 1] = max(found[number - 1], before.output_elements * element_bytes)
        elif layer.op in GATES and layer.input_elements == 2 * layer.output_elements and after.op in PRODUCTS:
            half = found[number - 1] / 2
            found[number - 1] = half + after.output_elements * element_bytes
            found[number] += half
    return found
