"""Products in turns: tokens go from GPU to GPU of those that split a layer, while each computes with those it has.

What sequence parallelism gathers before a product, and scatters as sums behind one, goes in as many pieces of tokens as
GPUs split the layer (`--tp-comm-overlap` of Megatron-LM with TransformerEngine's userbuffers; asynchronous tensor
parallelism of torchtitan). A GPU sends on what it has while it computes the product of that. What it sums up it sends
once it is computed, beside the product of the next piece. TransformerEngine (`initialize_ub` in
pytorch/module/base.py) has these pairs, which its users may change:

    a product that gathers     forward in turns (`ring_exchange`); backward what is scattered is sent as a whole,
                               beside the gradients of weights (`bulk`)
    a product that scatters    forward in turns (by default `pipeline`, here as its `ring_exchange`); backward what is
                               gathered comes in turns, beside the gradients of data (`ring_exchange`)

With t GPUs, b s of computing and c s of sending a piece, d and w s for the gradients of data and weights, and r s to
reduce and scatter all of it, where b has 1 / t of adding up what has come, as `piece_times` counts it,

    in turns   (t - 1) max(b, c) + b, gathering before or scattering behind
    backward of a product that gathers   d + max(w, r)

Left out: what copying takes of a GPU's processors. Gradients of weights that a schedule puts off are beside nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clustersim.errors import InputError
from clustersim.model import LayerTime
from clustersim.parallelism.pieces import IndivisibleError, Piece, check_divides
from clustersim.program.ops import BACKWARD, Call, Compute, Key, Op, Wait

AXIS = "tensor"
SETTING = "tensor_overlap"


def with_ring_steps(pieces: Sequence[Piece], degree: int) -> tuple[Piece, ...]:
    """Return pieces of which matrices that gather or scatter split tokens are computed in `degree` turns.

    A matrix of one row a sample is computed as it is. Raise InputError where tokens do not divide, or nothing is left.
    """
    try:
        made = tuple(
            replace(piece, num_ring_steps=degree) if _is_overlapped(piece, degree) else piece for piece in pieces
        )
    except IndivisibleError as error:
        raise InputError(f"{error}; drop {SETTING}", key=SETTING, got="true", allowed="false") from None
    if all(piece.num_ring_steps == 1 for piece in made):
        message = f"no product of this model gathers or scatters tokens that {SETTING} could send meanwhile; drop it"
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
    """Go through what a GPU does in one pass of a product in turns, which is `place` in the model.

    `time` is that of all turns, and `batch` the samples of a micro-batch; gradients of weights may be `defers_weights`.
    """
    name = time.layer.name
    weights_s = 0.0 if defers_weights else time.backward_weights_s
    weights = [Compute(name, weights_s, phase, micro)] if weights_s else []
    if phase != BACKWARD:
        yield from _ring_ops(piece, time.forward_s, bool(piece.after_forward), name, phase, micro, place, batch)
    elif piece.before_backward:
        yield from _ring_ops(piece, time.backward_data_s, False, name, phase, micro, place, batch)
        yield from weights
    else:
        if time.backward_data_s:
            yield Compute(name, time.backward_data_s, phase, micro)
        keys = [Key(f"{call.op} beside {phase}", micro, place) for call in piece.after_backward]
        for key, call in zip(keys, piece.after_backward, strict=True):
            yield Call(key, call.op, call.axis, call.bytes_per_sample * batch)
        yield from weights
        yield from map(Wait, keys)


def _ring_ops(
    piece: Piece, seconds: float, scatters: bool, name: str, phase: str, micro: int, place: int, batch: int
) -> Iterator[Op]:
    """Go through the turns of a product: all but one of them send a piece of tokens, the first none that scatters."""
    (call,) = piece.before_forward + piece.after_forward
    num = piece.num_ring_steps
    quiet = 0 if scatters else num - 1
    for step in range(num):
        key = Key(f"tokens {step} {phase}", micro, place)
        if step != quiet:
            yield Call(key, "send-recv", AXIS, call.bytes_per_sample * batch / num)
        yield Compute(name, seconds / num, phase, micro)
        if step != quiet:
            yield Wait(key)
