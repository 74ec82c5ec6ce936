"""Overlap of tensor parallel matrix products with their collectives: tokens pass around a ring of GPUs in pieces.

With sequence parallelism, the all-gather before a matrix product and the reduce-scatter after one are divided into as
many pieces of tokens as GPUs split the layer (`--tp-comm-overlap` of Megatron-LM with TransformerEngine's userbuffers;
asynchronous tensor parallelism of torchtitan). A GPU sends on the piece that it has while it computes the product of
that piece. A partial sum is sent once it is computed, during the product of the next piece. TransformerEngine
(`initialize_ub` in pytorch/module/base.py) has these defaults, which its users may change:

    a product that gathers     forward in ring steps (`ring_exchange`); backward its reduce-scatter is sent as a whole,
                               during the gradients of weights (`bulk`)
    a product that scatters    forward in ring steps (by default `pipeline`, here as its `ring_exchange`); backward its
                               all-gather is in ring steps, during the gradients of data (`ring_exchange`)

With t GPUs, b s of computing and c s of sending a piece, d and w s for the gradients of data and weights, and r s to
reduce-scatter all of it, where b includes 1 / t of the sum of received pieces, as `piece_times` counts it,

    ring steps                           (t - 1) max(b, c) + b, gathering before or scattering after
    backward of a product that gathers   d + max(w, r)

Left out: processors of the GPU that copies use. Gradients of weights that a schedule defers overlap with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clustersim.errors import InputError
from clustersim.model import LayerTime
from clustersim.parallelism.pieces import IndivisibleError, Piece, check_divides
from clustersim.program.issue import PassIssue, issue_times
from clustersim.program.ops import BACKWARD, Call, Compute, Key, Op, Wait

AXIS = "tensor"
SETTING = "tensor_overlap"


def with_ring_steps(pieces: Sequence[Piece], degree: int) -> tuple[Piece, ...]:
    """Return pieces in which matrix products with an all-gather or reduce-scatter of tokens have `degree` ring steps.

    A product with one row per sample is unchanged. Raise InputError if tokens do not divide, or no product is left.
    """
    try:
        made = tuple(
            replace(piece, num_ring_steps=degree) if _is_overlapped(piece, degree) else piece for piece in pieces
        )
    except IndivisibleError as error:
        raise InputError(f"{error}; leave {SETTING} out", key=SETTING, got="true", allowed="false") from None
    if all(piece.num_ring_steps == 1 for piece in made):
        message = f"no matrix product of this model gathers or scatters tokens; leave {SETTING} out"
        raise InputError(message, key=SETTING, got="true", allowed="false")
    return made


def _is_overlapped(piece: Piece, degree: int) -> bool:
    rows = piece.layer.shape.get("rows", 1) if piece.layer.op == "fully-connected" else 1
    ways = [(call.op, call.axis) for call in piece.before_forward + piece.after_forward]
    if rows == 1 or ways not in ([("all-gather", AXIS)], [("reduce-scatter", AXIS)]):
        return False
    check_divides(degree, rows, "rows", piece.layer)
    return True


def overlapped_ops(
    piece: Piece, time: LayerTime, phase: str, micro: int, place: int, batch: int, defers_weights: bool = False
) -> Iterator[Op]:
    """Yield the operations of one pass of a product in ring steps, which is layer `place` of the model.

    `time` is that of all steps, `batch` the samples of a micro-batch; with `defers_weights` the gradients of weights
    are left out.
    """
    name = time.layer.name
    weights_s = 0.0 if defers_weights else time.backward_weights_s
    of_weights = issue_times([(weights_s, time.backward_weights_issue)])
    weights = [Compute(name, weights_s, phase, micro, issue=of_weights)] if weights_s else []
    if phase != BACKWARD:
        scatters, issue = bool(piece.after_forward), time.forward_issue
        yield from _ring_ops(piece, time.forward_s, issue, scatters, name, phase, micro, place, batch)
    elif piece.before_backward:
        issue = time.backward_data_issue
        yield from _ring_ops(piece, time.backward_data_s, issue, False, name, phase, micro, place, batch)
        yield from weights
    else:
        if time.backward_data_s:
            of_data = issue_times([(time.backward_data_s, time.backward_data_issue)])
            yield Compute(name, time.backward_data_s, phase, micro, issue=of_data)
        keys = [Key(f"{call.op} beside {phase}", micro, place) for call in piece.after_backward]
        for key, call in zip(keys, piece.after_backward, strict=True):
            yield Call(key, call.op, call.axis, call.bytes_per_sample * batch)
        yield from weights
        yield from map(Wait, keys)


def _ring_ops(
    piece: Piece,
    seconds: float,
    issue: PassIssue,
    scatters: bool,
    name: str,
    phase: str,
    micro: int,
    place: int,
    batch: int,
) -> Iterator[Op]:
    """Yield the ring steps of a product: all but one send a piece, the last if it gathers, the first if it scatters.

    The host issues each step like the whole product.
    """
    (call,) = piece.before_forward + piece.after_forward
    num = piece.num_ring_steps
    quiet = 0 if scatters else num - 1
    for step in range(num):
        key = Key(f"tokens {step} {phase}", micro, place)
        if step != quiet:
            yield Call(key, "send-recv", AXIS, call.bytes_per_sample * batch / num)
        yield Compute(name, seconds / num, phase, micro, issue=issue_times([(seconds / num, issue)]))
        if step != quiet:
            yield Wait(key)
