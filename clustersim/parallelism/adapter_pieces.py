"""Adapters of products that tensor parallelism splits, as NeMo's `ParallelLinearAdapter` splits them.

Beside a product that is split by columns, every GPU has the whole A, and the columns of B for its own outputs; the
gradients of A's output are summed. Beside one that is split by rows, every GPU has the rows of A for its own inputs,
the outputs of A are summed, and every GPU has the whole B. Both sums are of `rank` numbers per token. Beside a product
that every GPU computes whole, so it does the adapter. With sequence parallelism a sum is scattered over the tokens, as
that of the product is, and B behind it has 1 / n of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clustersim.model import Layer
from clustersim.parallelism.pieces import GroupCall, Piece, divided, part_of


def with_adapter_pieces(
    layers: Sequence[Layer], pieces: Sequence[Piece], degree: int, activation_bytes: float, sequence_parallel: bool
) -> Iterator[Piece]:
    """Yield the pieces of all layers, given those of the layers that are no part of an adapter."""
    own = iter(pieces)
    waiting: list[Layer] = []
    for layer in layers:
        if layer.adapts:
            waiting.append(layer)
            continue
        base = next(own)
        for each in waiting:
            yield _piece(each, layer, base, degree, activation_bytes, sequence_parallel)
        waiting = []
        yield base


def _piece(layer: Layer, whole: Layer, base: Piece, degree: int, activation_bytes: float, scatters: bool) -> Piece:
    """Return the piece of a layer of an adapter beside a product with this piece."""
    if not base.is_split:
        return Piece(layer, is_split=False)
    by_rows = base.layer.shape["inputs"] < whole.shape["inputs"]
    is_sum, is_into = not layer.shape, layer.shape.get("inputs") == whole.shape["inputs"]
    if by_rows:
        if is_into:
            part = replace(part_of(layer, "inputs", degree), output_elements=layer.output_elements)
            size = layer.output_elements * activation_bytes
            after = GroupCall("reduce-scatter" if scatters else "all-reduce", size)
            before = (GroupCall("all-gather", size),) if scatters else ()
            return Piece(part, is_split=True, after_forward=(after,), before_backward=before)
        fewer = divided(layer, 1, degree) if is_sum else part_of(layer, "rows", degree)
        own = replace(fewer, num_parameters=layer.num_parameters) if scatters else layer
        return Piece(own, is_split=False)
    if is_sum:
        return Piece(divided(layer, 1, degree), is_split=False)
    if is_into:
        return Piece(layer, is_split=False)
    part = replace(part_of(layer, "outputs", degree), input_elements=layer.input_elements)
    gradient = GroupCall("all-reduce", layer.input_elements * activation_bytes)
    return Piece(part, is_split=True, after_backward=(gradient,))
