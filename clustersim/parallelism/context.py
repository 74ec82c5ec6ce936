"""Context parallelism: each GPU of a group has some tokens of every sequence, and gathers keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.errors import InputError
from clustersim.kernels.fused_attention import is_fused, reads_values_alone
from clustersim.model import Layer
from clustersim.parallelism.pieces import GroupCall, IndivisibleError, Piece, check_divides, divided, part_of
from clustersim.parallelism.ring import AXIS


def context_parallel_pieces(
    pieces: Sequence[Piece], degree: int, activation_bytes: float, is_ring: bool = False, num_gpus: int = 0
) -> tuple[Piece, ...]:
    """Return the pieces of one of `degree` GPUs, each with an equal share of the tokens; all have all parameters.

    Before each product of an attention, the keys or values of all tokens are gathered. After it in the backward pass,
    their gradients are reduce-scattered: all-gather-based context parallelism (Llama Team, arXiv:2407.21783, section
    3.3.2). With `is_ring` blocks of them pass from GPU to GPU (`clustersim.parallelism.ring`). Tokens are taken to be
    assigned to GPUs so that all have the same work under a causal mask, also in each step of a ring (Brandon et al.,
    arXiv:2311.09431). If `num_gpus` is given, the degree that an error message proposes divides it.
    """
    if degree == 1:
        return tuple(pieces)
    if not any(piece.layer.op == "matmul" for piece in pieces):
        raise InputError(
            "context splits the tokens of a sequence for attention, and the model has no attention; leave context out",
            key=AXIS,
            got=str(degree),
            allowed="1",
        )
    if is_ring:
        _check_fused([piece.layer for piece in pieces])
    try:
        return tuple(_tokens_of(piece, degree, activation_bytes, is_ring) for piece in pieces)
    except IndivisibleError as error:
        works = _nearest(pieces, degree, is_ring, num_gpus)
        message = f"{error}; the nearest number of GPUs that works is {works}"
        raise InputError(message, key=AXIS, got=str(degree), allowed=str(works)) from None


def _nearest(pieces: Sequence[Piece], degree: int, is_ring: bool, num_gpus: int) -> int:
    """Return the degree nearest to `degree` that divides the tokens, the smaller of two; 1 always works."""
    divisors = [other for other in range(1, 2 * degree) if num_gpus % other == 0]
    for other in sorted(divisors, key=lambda other: (abs(other - degree), other)):
        try:
            for piece in pieces:
                _tokens_of(piece, other, 1.0, is_ring)
        except IndivisibleError:
            continue
        return other
    raise AssertionError("a model was refused on one GPU")


def _check_fused(layers: Sequence[Layer]) -> None:
    """Raise InputError if an attention writes the scores of all pairs of tokens: a ring needs a fused kernel."""
    written = next((layer for layer in layers if layer.op == "matmul" and not is_fused(layer)), None)
    if written is not None:
        raise InputError(
            f"a ring needs attention in one fused kernel, and '{written.name}' is a separate matrix product; use "
            "context_method: all-gather, or a model with fused attention, such as llama-3.1-8b",
            key="context_method",
            got="ring",
            allowed="all-gather",
        )


def _tokens_of(piece: Piece, degree: int, activation_bytes: float, is_ring: bool) -> Piece:
    layer = piece.layer
    if layer.op == "experts" and layer.shape:  # rows of each expert are a mean, which need not divide
        shape = {**layer.shape, "rows": -(-layer.shape["rows"] // degree)}
        fewer = replace(divided(layer, 1, degree), shape=shape)
    else:
        fewer = part_of(layer, "rows", degree) if "rows" in layer.shape else divided(layer, 1, degree)
    fewer = replace(fewer, num_parameters=layer.num_parameters)
    before, after = (_of_fewer(calls, degree) for calls in (piece.before_forward, piece.after_forward))
    back, behind = (_of_fewer(calls, degree) for calls in (piece.before_backward, piece.after_backward))
    if layer.op == "matmul":
        own = 0 if reads_values_alone(layer) else layer.shape["rows"] * layer.shape["inputs"] * layer.shape["count"]
        others = layer.input_elements - own
        if is_ring:
            check_divides(degree, layer.shape["inputs" if layer.output_elements else "outputs"], "tokens", layer)
            block_bytes = others / degree * activation_bytes
            return Piece(fewer, piece.is_split, num_blocks=degree, block_bytes=block_bytes)
        fewer = replace(fewer, input_elements=own / degree + others)
        before = (*before, GroupCall("all-gather", others * activation_bytes, AXIS))
        behind = (GroupCall("reduce-scatter", others * activation_bytes, AXIS), *behind)
    return Piece(fewer, piece.is_split, before, after, back, behind)


def _of_fewer(calls: Sequence[GroupCall], degree: int) -> tuple[GroupCall, ...]:
    """Return the collectives of a tensor parallel group for 1 / `degree` of the tokens."""
    return tuple(replace(call, bytes_per_sample=call.bytes_per_sample / degree) for call in calls)
