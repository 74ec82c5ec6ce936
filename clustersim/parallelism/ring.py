"""Attention in a ring: blocks of keys and values go from GPU to GPU while each computes with the one it has.

Ring attention (Liu et al., arXiv:2310.01889). Of c GPUs each has 1 / c of the tokens. In each of c turns it computes
with one block of keys and values, and sends that on to the next GPU meanwhile, as it receives the next block from the
one before. Backward the blocks go round once more, and their gradients follow them one turn later, so that they are
complete where the block came from, as TransformerEngine does it (`context_parallel.py`, `AttnFuncWithCPAndKVP2P`: in
the last turn everyone has its own block). A GPU so sends, in parts of keys and values of all tokens, (c - 1) / c
forward, as it would of an all-gather, and twice that backward. With b s of computing and t s of sending a block,

    forward   (c - 1) max(b, t) + b
    backward  2 max(b, t) + (c - 2) max(b, 2 t),  of b and t backward

Left out: putting the blocks' outputs together, and adding what has come of a gradient to what a turn makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.parallelism.pieces import Piece
from clustersim.program.ops import BACKWARD, Call, Compute, Key, Op, Wait
from clustersim.workload import LayerTime

AXIS = "context"

BUFFERS = 4
"""Blocks that a GPU has room for beside its own keys or values: the one that it computes with and the one that it
receives, and as many gradients of them."""


def in_ring(piece: Piece) -> bool:
    """Say whether a piece is computed block by block while others' blocks are on their way."""
    return piece.num_blocks > 1


def ring_ops(
    pieces: Sequence[Piece], times: Sequence[LayerTime], phase: str, micro: int, place: int, batch: int
) -> Iterator[Op]:
    """Go through what a GPU does in one pass of `pieces`, the layers of one attention, whose blocks go round together.

    `times` are those of all blocks, `place` is the attention's in the model, and `batch` the samples of a micro-batch.
    Products of activations have no gradients of weights, which a schedule could put off.
    """
    is_backward = phase == BACKWARD
    num, block_bytes = pieces[0].num_blocks, batch * sum(piece.block_bytes for piece in pieces)
    for turn in range(num):
        sent = (turn < num - 1) + (is_backward and turn > 0)
        key = Key(f"keys and values {turn} {phase}", micro, place)
        if sent:
            yield Call(key, "send-recv", AXIS, sent * block_bytes)
        for time in reversed(times) if is_backward else times:
            yield Compute(time.layer.name, (time.backward_s if is_backward else time.forward_s) / num, phase, micro)
        if sent:
            yield Wait(key)
