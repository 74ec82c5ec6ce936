"""Which passes forward a rank makes again in backward, and where the blocks begin of which it does.

Recomputation (Chen et al., arXiv:1604.06174; Korthikanti et al., arXiv:2205.05198, section 5) keeps the input of each
block only (`full`), or drops what attention has for each pair of tokens, or what is no product.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

from clustersim.errors import InputError
from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.memory import PRODUCTS
from clustersim.model import Layer
from clustersim.parallelism.pointwise import POINTWISE, made_again
from clustersim.parallelism.selective import fused_blocks
from clustersim.parallelism.stages import JOINS, cut_points


def block_starts(layers: Sequence[Layer]) -> list[int]:
    """Return where the blocks of a model begin: layers whose weights and activations come and go together.

    A block ends where one tensor alone goes on (`cut_points`); what follows an attention up to the next one belongs to
    it, so that a block of a transformer is one of its layers. A plain chain of n layers with parameters has about
    sqrt(n) blocks of as many of these (Chen et al., 2016, section 4.1).

    >>> from clustersim.model import load_model
    >>> layers = load_model("gpt2-small").layers
    >>> len(block_starts(layers)), layers[block_starts(layers)[1]].name
    (14, 'drop')
    """
    if not layers:
        return []
    if not any(layer.op in JOINS for layer in layers):
        trained = [number for number, layer in enumerate(layers) if layer.num_parameters]
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
    """Return whose forward pass is repeated in backward [num_layers].

    `full` repeats every block of a transformer, but neither its embedding nor its last layer, as Megatron-LM; of other
    models everything but the last block, whose backward pass comes next. `attention` repeats the products of an
    attention and what lies between them. So does `selective`; but in blocks whose attention is fused, and stores no
    scores, every second matrix product and what is no product, as torchtitan does
    (`torchtitan/parallelisms/parallelize_llama.py`). `pointwise` and `pointwise+attention` are in
    `clustersim.parallelism.pointwise`.
    """
    again = [False] * len(layers)
    if recompute == "full" or recompute in POINTWISE:
        starts = block_starts(layers)
        blocks = [range(start, end) for start, end in zip(starts, [*starts[1:], len(layers)], strict=True)]
        attending = [block for block in blocks if any(layers[number].op == "matmul" for number in block)]
        if recompute in POINTWISE:
            return made_again(layers, attending, with_attention=recompute == "pointwise+attention")
        for block in attending or blocks[:-1]:
            again[block.start : block.stop] = [True] * len(block)
    elif recompute == "attention":
        for first, last in _attentions(layers):
            again[first : last + 1] = [True] * (last + 1 - first)
    elif recompute == "selective":
        for first, last in _attentions(layers):
            again[first : last + 1] = [not is_fused(layers[first])] * (last + 1 - first)
        for block in fused_blocks(layers, block_starts(layers)):
            lasting = [number for number in block if is_fused(layers[number])]
            matrices = [number for number in block if layers[number].op in PRODUCTS and number not in lasting]
            for number in {*block} - {*lasting, *matrices[::2]}:
                again[number] = True
    return again


def in_first_blocks(again: Sequence[bool], starts: Sequence[int], num_blocks: int | None) -> list[bool]:
    """Return which layers of a part repeat their pass forward where only the first blocks that do so may [num_layers].

    `again` is `recomputed` for the part, `starts` where its blocks begin. Megatron-LM counts so where its method is
    `block` (`_checkpointed_forward` in megatron/core/transformer/transformer_block.py): blocks of a stage's chunk.

    >>> in_first_blocks([False, True, True, True, True], [0, 1, 3], 1)
    [False, True, True, False, False]
    """
    repeating = _repeating(again, starts)
    end = repeating[num_blocks] if num_blocks is not None and num_blocks < len(repeating) else len(again)
    return [repeats and number < end for number, repeats in enumerate(again)]


def check_blocks(again: Sequence[Sequence[bool]], starts: Sequence[Sequence[int]], num_blocks: int) -> None:
    """Refuse more blocks than any part of a model has to repeat; both arguments of each part."""
    most = max(len(_repeating(*part)) for part in zip(again, starts, strict=True))
    if num_blocks > most:
        what = f"{most} block{'s' * (most != 1)}"
        raise InputError(
            f"no stage (or chunk of one) has more than {what} to compute again; leave it out for all of them",
            key="recompute_blocks",
            got=str(num_blocks),
            allowed=f"at most {most}" if most else "a model with such blocks",
        )


def _repeating(again: Sequence[bool], starts: Sequence[int]) -> list[int]:
    """Return where the blocks begin of which a layer repeats its pass."""
    return [start for start, end in zip(starts, [*starts[1:], len(again)], strict=True) if any(again[start:end])]


def _attentions(layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """Return the first and the last product of each attention: scores, and what they weigh."""
    products = [number for number, layer in enumerate(layers) if layer.op == "matmul"]
    return list(zip(products[::2], products[1::2], strict=False))
