"""Experts divided over a group of GPUs: each has some of them, and tokens travel to those they are routed to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.errors import InputError
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.pieces import GroupCall, Piece

AXIS = "expert"
OP = "experts"

EXPERT_REPLICAS = "data"
"""The axis, as programs call it, of GPUs that have the same experts: they differ along `data` and `context`."""


def is_expert_parallel(piece: Piece, grid: Grid) -> bool:
    """Say whether a piece has some of the experts that a group shares out, so that fewer GPUs have copies of it."""
    return piece.layer.op == OP and grid.expert > 1


def updated_share(pieces: Sequence[Piece], grid: Grid) -> float:
    """Return the share of a stage's parameters that one GPU has where all who have the same ones share them out.

    Of P parameters, of which E are experts', on R GPUs that have the same rest and R / e that have the same experts,
    each has (P - E) / R + E e / R. Where groups of N copies share out, and experts are not, it is 1 / N.
    """
    whole = sum(piece.layer.num_parameters for piece in pieces)
    experts = sum(piece.layer.num_parameters for piece in pieces if is_expert_parallel(piece, grid))
    return (1 + experts / whole * (grid.expert - 1)) / grid.shard_group_size if whole else 1.0


def expert_parallel_pieces(
    pieces: Sequence[Piece], degree: int, imbalance: float, activation_bytes: float
) -> tuple[Piece, ...]:
    """Return the pieces of one of `degree` GPUs that share out the experts of a model.

    Layers of experts come in pairs, into the experts and out of them. What a token brings travels to its experts by an
    all-to-all before the first, and what they make of it travels back after the second; their gradients go the same
    ways (GShard, arXiv:2006.16668, section 3.2). Each GPU has as many tokens of its experts as without a group, from
    all GPUs of it. The fullest one, which all wait for, has `imbalance` times as many.
    """
    numbers = [number for number, piece in enumerate(pieces) if piece.layer.op == OP]
    if degree == 1:
        return tuple(pieces)
    if not numbers:
        raise InputError(
            "expert divides the experts of a model, and this one has none; drop it",
            key=AXIS,
            got=str(degree),
            allowed="1",
        )
    made = list(pieces)
    for into, out in zip(numbers[::2], numbers[1::2], strict=True):
        travels = (GroupCall("all-to-all", pieces[into].layer.input_elements * activation_bytes * imbalance, AXIS),)
        for number in range(into, out + 1):
            made[number] = _own(pieces[number], degree, imbalance)
        made[into] = replace(made[into], before_forward=travels, after_backward=travels)
        made[out] = replace(made[out], after_forward=(*made[out].after_forward, *travels), before_backward=travels)
    return tuple(made)


def _own(piece: Piece, degree: int, imbalance: float) -> Piece:
    """Return what a GPU has of a layer of experts, or of what lies between two."""
    layer, shape = piece.layer, dict(piece.layer.shape)
    if layer.op == OP:
        if shape["experts"] % degree:
            works = max(size for size in range(1, degree) if shape["experts"] % size == 0)
            raise InputError(
                f"the {shape['experts']} experts of '{layer.name}' do not divide over {degree} GPUs; the nearest "
                f"number that works is {works}",
                key=AXIS,
                got=str(degree),
                allowed=str(works),
            )
        shape |= {
            "count": shape["count"] // degree,
            "experts": shape["experts"] // degree,
            "rows": round(shape["rows"] * degree * imbalance),
        }
    fewer = replace(
        layer,
        flop=layer.flop * imbalance,
        flop_backward_data=layer.flop_backward_data * imbalance,
        flop_backward_weights=layer.flop_backward_weights * imbalance,
        num_parameters=-(-layer.num_parameters // degree),
        input_elements=layer.input_elements * imbalance,
        output_elements=layer.output_elements * imbalance,
        shape=shape,
    )
    return replace(piece, layer=fewer, is_split=piece.is_split or layer.op == OP)
