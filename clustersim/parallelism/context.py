"""A sequence divided over a group of GPUs: each has some of its tokens, and gathers what attention needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.errors import InputError
from clustersim.parallelism.pieces import GroupCall, IndivisibleError, Piece, divided, part_of
from clustersim.workload.fused_attention import reads_values_alone

AXIS = "context"


def along_context(pieces: Sequence[Piece], degree: int, activation_bytes: float) -> tuple[Piece, ...]:
    """Return the pieces of one of `degree` GPUs that have as many tokens of each sequence; all have all parameters.

    Before each product of an attention, keys or values of all tokens are gathered, and after it in backward each GPU
    gets the sum of the gradients of its own: all-gather-based context parallelism (Llama Team, arXiv:2407.21783,
    section 3.3.2). Blocks of tokens are taken to be dealt so that all GPUs have as much to do behind a causal mask.
    """
    if degree == 1:
        return tuple(pieces)
    if not any(piece.layer.op == "matmul" for piece in pieces):
        raise InputError(
            "context divides the tokens of a sequence that attention reads, and the model has no attention; drop it",
            key=AXIS,
            got=str(degree),
            allowed="1",
        )
    try:
        return tuple(_tokens_of(piece, degree, activation_bytes) for piece in pieces)
    except IndivisibleError as error:
        raise InputError(f"{error}", key=AXIS, got=str(degree), allowed="a divisor of the tokens") from None


def _tokens_of(piece: Piece, degree: int, activation_bytes: float) -> Piece:
    layer = piece.layer
    fewer = part_of(layer, "rows", degree) if "rows" in layer.shape else divided(layer, 1, degree)
    fewer = replace(fewer, num_parameters=layer.num_parameters)
    before, after = (_of_fewer(calls, degree) for calls in (piece.before_forward, piece.after_forward))
    back, behind = (_of_fewer(calls, degree) for calls in (piece.before_backward, piece.after_backward))
    if layer.op == "matmul":
        own = 0 if reads_values_alone(layer) else layer.shape["rows"] * layer.shape["inputs"] * layer.shape["count"]
        others = layer.input_elements - own
        fewer = replace(fewer, input_elements=own / degree + others)
        before = (*before, GroupCall("all-gather", others * activation_bytes, AXIS))
        behind = (GroupCall("reduce-scatter", others * activation_bytes, AXIS), *behind)
    return Piece(fewer, piece.is_split, before, after, back, behind)


def _of_fewer(calls: Sequence[GroupCall], degree: int) -> tuple[GroupCall, ...]:
    """Return the collectives of those who split a layer, for a share of the tokens."""
    return tuple(replace(call, bytes_per_sample=call.bytes_per_sample / degree) for call in calls)
