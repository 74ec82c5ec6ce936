"""Times of one GPU's piece of every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from clustersim.kernels import estimate_layers
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.layer_times import Library
from clustersim.kernels.programs.blocking_launches import with_launch_waits
from clustersim.model import Layer, LayerTime, Workload
from clustersim.model.precision import precision_on
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.ring import in_ring, moved_elements

_PHASES = ("forward_s", "backward_data_s", "backward_weights_s")


def piece_times(whole: Workload, pieces: Sequence[Piece], library: Library) -> tuple[LayerTime, ...]:
    """Return the seconds of each piece [num_layers]; `whole` has those of the undivided layers at the same batch.

    A kernel for part of the shape takes its time by the kernel model, multiplied by the ratio of the undivided layer's
    known time to its own estimate: so calibration, profiles and published rates apply to the pieces. A layer without a
    shape, with times from a file, takes its fraction of them. A product that reduce-scatters in ring steps also adds
    the received pieces. A process waits as long for a kernel of a piece as for one of the whole layer.
    """
    model = whole.model
    if all(piece.layer is layer for piece, layer in zip(pieces, model.layers, strict=True)):
        return whole.layers
    if whole.launch == "blocking":
        waits = partial(
            with_launch_waits,
            library=library,
            host=whole.host_sheet,
            precision=whole.precision,
            factor=whole.issue_factor,
        )
        alone = replace(whole, layers=waits(whole.layers, sign=-1), launch="queued")
        return waits(_divided(alone, pieces, library))
    return _divided(whole, pieces, library)


def _divided(whole: Workload, pieces: Sequence[Piece], library: Library) -> tuple[LayerTime, ...]:
    """Return the seconds of each piece, which a host issues as it does the whole layer."""
    model = whole.model

    def estimated(layers: tuple[Layer, ...]) -> tuple[LayerTime, ...]:
        return estimate_layers(
            model if layers is model.layers else replace(model, layers=layers), whole.gpu, whole.batch, whole.precision,
            library=library, layout=whole.layout, casts=whole.casts,
            casts_back=whole.casts_back, kernels=whole.kernels,
        ).layers  # fmt: skip

    parts, wholes = estimated(tuple(piece.block for piece in pieces)), estimated(model.layers)
    steps = parts
    if any(piece.num_ring_steps > 1 for piece in pieces):
        steps = estimated(tuple(piece.ring_step for piece in pieces))
    around = [_around_blocks_s(piece, whole) for piece in pieces]
    shares = map(_shares, pieces, wholes, parts, steps)
    return tuple(
        LayerTime(
            piece.layer,
            known.forward_s * share[0] + _sums_s(piece, whole) + blocks_s[0],
            known.backward_data_s * share[1] + blocks_s[1],
            known.backward_weights_s * share[2],
            known.provenance,
            known.forward_issue,
            known.backward_data_issue,
            known.backward_weights_issue,
        )
        for piece, known, share, blocks_s in zip(pieces, whole.layers, shares, around, strict=True)
    )


def _around_blocks_s(piece: Piece, whole: Workload) -> tuple[float, float]:
    """Return the seconds of copies and sums around the blocks of ring attention, forward and backward.

    They run at the memory rate of element-wise kernels.
    """
    if not in_ring(piece):
        return 0.0, 0.0
    number = precision_on(whole.gpu, whole.precision)
    constants = constants_of(whole.gpu, number.units)
    rate = constants.memory_efficiency * whole.gpu.memory_bytes_per_s
    per_element_s = whole.kernel_factor * whole.batch * number.operand_bytes / rate
    forward, backward = moved_elements(piece)
    return forward * per_element_s, backward * per_element_s


def _sums_s(piece: Piece, whole: Workload) -> float:
    """Return the seconds in which a GPU adds its tokens' pieces from `num_ring_steps` GPUs, after a reduce-scatter.

    A kernel reads all of these pieces and writes one (`_fused_matmul_reduce_scatter_impl` in PyTorch's
    torch/distributed/_symmetric_memory, `split_overlap_rs` of TransformerEngine's userbuffers).
    """
    if piece.num_ring_steps == 1 or not piece.after_forward:
        return 0.0
    constants = constants_of(whole.gpu, precision_on(whole.gpu, whole.precision).units)
    moved = sum(call.bytes_per_sample for call in piece.after_forward) * (1 + 1 / piece.num_ring_steps)
    rate = constants.memory_efficiency * whole.gpu.memory_bytes_per_s
    return whole.kernel_factor * (whole.batch * moved / rate + whole.gpu.launch_s)


def _shares(piece: Piece, whole: LayerTime, part: LayerTime, ring_step: LayerTime) -> list[float]:
    """Return a piece's fraction of its whole layer's time in each phase."""
    if piece.layer is whole.layer or piece.layer == whole.layer:
        return [1.0] * len(_PHASES)
    return [_share(piece, whole, part, ring_step, phase) for phase in _PHASES]


def _share(piece: Piece, whole: LayerTime, part: LayerTime, ring_step: LayerTime, phase: str) -> float:
    """Return a piece's fraction of its whole layer's time in a phase, as one kernel, in blocks or in ring steps."""
    layer = whole.layer
    own, num = (ring_step, piece.num_ring_steps) if phase in piece.overlapped_phases else (part, piece.num_blocks)
    whole_s, own_s = float(getattr(whole, phase)), float(getattr(own, phase))
    if layer.shape and whole_s > 0:
        return num * own_s / whole_s
    if layer.flop:
        return piece.layer.flop / layer.flop
    return piece.layer.output_elements / layer.output_elements if layer.output_elements else 1.0
