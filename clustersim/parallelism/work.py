"""How long one GPU of a group takes for its piece of every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clustersim.kernels import estimate_layers
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.layer_times import OPERATOR_S, Library
from clustersim.kernels.programs.blocking_launches import with_launch_waits
from clustersim.model import Layer, LayerTime, Workload
from clustersim.model.precision import precision_on
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.ring import in_ring, moved_elements


def piece_times(whole: Workload, pieces: Sequence[Piece], library: Library) -> tuple[LayerTime, ...]:
    """Return the seconds of each piece [num_layers], `whole` having those of the undivided layers at the same batch.

    A kernel of part of the shape takes its time by the kernel model, multiplied by what the undivided layer is known
    to take over its own estimate: fitting, profiles and published rates go on to the pieces. A layer without a shape,
    whose times a file gives, takes its share of them. A product that scatters in turns adds up what has come as well.
    A process waits as long for a kernel of a piece as for one of the whole layer.
    """
    model = whole.model
    if all(piece.layer is layer for piece, layer in zip(pieces, model.layers, strict=True)):
        return whole.layers
    if whole.launch == "blocking":
        alone = replace(whole, layers=with_launch_waits(whole.layers, library, -1), launch="queued")
        return with_launch_waits(_divided(alone, pieces, library, 0.0), library)
    return _divided(whole, pieces, library, OPERATOR_S)


def _divided(whole: Workload, pieces: Sequence[Piece], library: Library, operator_s: float) -> tuple[LayerTime, ...]:
    """Return the seconds of each piece, whose estimates are those of kernels issued each so many seconds."""
    model = whole.model

    def estimated(layers: tuple[Layer, ...]) -> tuple[LayerTime, ...]:
        return estimate_layers(
            model if layers is model.layers else replace(model, layers=layers), whole.gpu, whole.batch, whole.precision,
            library=library, layout=whole.layout, operator_s=operator_s, casts=whole.casts,
            casts_back=whole.casts_back,
        ).layers  # fmt: skip

    parts, wholes = estimated(tuple(piece.block for piece in pieces)), estimated(model.layers)
    turns = parts
    if any(piece.num_turns > 1 for piece in pieces):
        turns = estimated(tuple(piece.turn for piece in pieces))
    around = [_around_blocks_s(piece, whole) for piece in pieces]
    return tuple(
        LayerTime(
            piece.layer,
            known.forward_s * _share(piece, guess, part, turn, "forward_s") + _sums_s(piece, whole) + blocks_s[0],
            known.backward_data_s * _share(piece, guess, part, turn, "backward_data_s") + blocks_s[1],
            known.backward_weights_s * _share(piece, guess, part, turn, "backward_weights_s"),
            known.provenance,
        )
        for piece, known, guess, part, turn, blocks_s in zip(
            pieces, whole.layers, wholes, parts, turns, around, strict=True
        )
    )


def _around_blocks_s(piece: Piece, whole: Workload) -> tuple[float, float]:
    """Return how long copies and sums around the blocks of a ring take, forward and backward.

    They go at the memory rate that element-wise kernels reach.
    """
    if not in_ring(piece):
        return 0.0, 0.0
    number = precision_on(whole.gpu, whole.precision)
    constants = constants_of(whole.gpu, number.units)
    rate = constants.memory_efficiency * whole.gpu.memory_bytes_per_s
    per_element_s = whole.batch * number.operand_bytes / rate
    forward, backward = moved_elements(piece)
    return forward * per_element_s, backward * per_element_s


def _sums_s(piece: Piece, whole: Workload) -> float:
    """Return how long a GPU adds up what `num_turns` GPUs have of its tokens, where a product scatters in turns.

    A kernel reads all of their pieces and writes one (`_fused_matmul_reduce_scatter_impl` in PyTorch's
    torch/distributed/_symmetric_memory, `split_overlap_rs` of TransformerEngine's userbuffers).
    """
    if piece.num_turns == 1 or not piece.after_forward:
        return 0.0
    constants = constants_of(whole.gpu, precision_on(whole.gpu, whole.precision).units)
    moved = sum(call.bytes_per_sample for call in piece.after_forward) * (1 + 1 / piece.num_turns)
    return whole.batch * moved / (constants.memory_efficiency * whole.gpu.memory_bytes_per_s) + whole.gpu.launch_s


def _share(piece: Piece, whole: LayerTime, part: LayerTime, turn: LayerTime, phase: str) -> float:
    """Return what a piece takes of its whole layer's time, as one part or in turns."""
    layer = whole.layer
    if piece.layer is layer or piece.layer == layer:
        return 1.0
    own, num = (turn, piece.num_turns) if phase in piece.turned else (part, piece.num_blocks)
    whole_s, own_s = float(getattr(whole, phase)), float(getattr(own, phase))
    if layer.shape and whole_s > 0:
        return num * own_s / whole_s
    if layer.flop:
        return piece.layer.flop / layer.flop
    return piece.layer.output_elements / layer.output_elements if layer.output_elements else 1.0
