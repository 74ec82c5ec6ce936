"""Recurrent layers in pipeline stages: chunks of each sequence pass through one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.errors import InputError
from clustersim.parallelism.pieces import Piece, divided, part_of
from clustersim.parallelism.split import GATES

KEY = "time_chunks"
_OF_EACH_TOKEN = frozenset(
    {
        *GATES,
        *("embedding", "fully-connected", "dropout", "relu", "gelu", "silu", "sigmoid", "tanh", "softmax"),
        *("layer-norm", "rms-norm", "add", "concat", "multiply", "divide", "loss"),
    }
)
"""Layers that compute a token from this token and the state of a recurrent layer."""


def time_chunk_pieces(pieces: Sequence[Piece], num_chunks: int) -> tuple[Piece, ...]:
    """Return a GPU's piece of every layer for one of `num_chunks` equal chunks of each sequence; parameters are whole.

    Layer l computes one chunk while layer l + 1, on another GPU, computes the one before it (Wu et al.,
    arXiv:1609.08144, section 3.3). The backward pass begins with the last chunk, after the forward passes of all.
    """
    if num_chunks == 1:
        return tuple(pieces)
    tokens = {piece.layer.shape.get("count", 0) for piece in pieces if piece.layer.op in GATES}
    if not tokens:
        raise _mistake("time_chunks divides the sequence of recurrent layers, and the model has none", num_chunks, "1")
    for piece in pieces:
        _check(piece, max(tokens), num_chunks)
    return tuple(_chunk_of(piece, num_chunks) for piece in pieces)


def _check(piece: Piece, tokens: int, num_chunks: int) -> None:
    """Raise InputError for a layer that cannot be divided into chunks of the sequence."""
    layer = piece.layer
    known = layer.shape.get("count" if layer.op in GATES else "rows", tokens)
    if layer.op not in _OF_EACH_TOKEN or known != tokens:
        message = (
            f"'{layer.name}' ({layer.op}) reads more than one token at a time, so it cannot be divided into chunks"
        )
        raise _mistake(message, num_chunks, "1")
    if tokens % num_chunks:
        works = [size for size in range(1, tokens + 1) if tokens % size == 0]
        near = min(works, key=lambda size: abs(size - num_chunks))
        message = f"{tokens} tokens of a sequence do not divide into {num_chunks} chunks; the nearest that do is {near}"
        raise _mistake(message, num_chunks, f"a divisor of {tokens}, such as {near}")


def _chunk_of(piece: Piece, num_chunks: int) -> Piece:
    layer = piece.layer
    if layer.op in GATES:
        chunk = part_of(layer, "count", num_chunks)
    elif "rows" in layer.shape:
        chunk = part_of(layer, "rows", num_chunks)
    else:
        chunk = divided(layer, 1, num_chunks)
    before, after, back, behind = (
        tuple(replace(call, bytes_per_sample=call.bytes_per_sample / num_chunks) for call in each)
        for each in (piece.before_forward, piece.after_forward, piece.before_backward, piece.after_backward)
    )
    return Piece(
        replace(chunk, num_parameters=layer.num_parameters, frozen_bytes=layer.frozen_bytes),
        piece.is_split,
        before,
        after,
        back,
        behind,
    )


def _mistake(message: str, num_chunks: int, allowed: str) -> InputError:
    return InputError(message, key=KEY, got=str(num_chunks), allowed=allowed)
