"""Attention in a ring: blocks of keys and values go from GPU to GPU while each computes with the one it has.

Ring attention (Liu et al., arXiv:2310.01889). Of c GPUs each has 1 / c of the tokens. In each of c turns it computes
with one block of keys and values, and sends that on to the next GPU meanwhile, as it receives the next block from the
one before. Backward the blocks go round once more, and their gradients follow them one turn later, so that they are
complete where the block came from, as TransformerEngine does it (`context_parallel.py`, `AttnFuncWithCPAndKVP2P`: in
the last turn everyone has its own block). A GPU so sends, in parts of keys and values of all tokens, (c - 1) / c
forward, as it would of an all-gather, and twice that backward. With b s of computing and t s of sending a block,

    forward   (c - 1) max(b, t) + b
    backward  2 max(b, t) + (c - 2) max(b, 2 t),  of b and t backward

Beside its kernels of attention, TransformerEngine copies and adds up, counted in its source of early 2024 behind a
causal mask (`FlashAttnUnpaddedFuncWithCP` in `transformer_engine/pytorch/attention.py`). Each GPU has two slices of
tokens, one from the front and one from the back, and computes with all it has in its own turn. Of the other c - 1
turns half, in the mean over GPUs, have all its queries and the first slice of keys and values, which it copies; half
have the second slice of queries, copied, and all of keys and values. In elements that cross memory, of q queries (as
many as it writes) and k keys (as many as values) of a GPU,

    forward   k and v are put together, 4 k, and outputs begin as zeros, q; slices are copied, (c - 1) (k + q / 2); each
              turn's output is scaled and added, 3 q, or 3 q / 2 of a slice: 3 q + (c - 1) 9 q / 4
    backward  k and v are copied once more, 4 k; slices, with the output's and its gradient's, (c - 1) (k + 3 q / 2);
              gradients are added, 3 q + 6 k and (c - 1) (9 q + 18 k) / 4

Left out: logarithms of the softmax's sums, and that the first gradients are copied and not added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.model import LayerTime
from clustersim.parallelism.pieces import Piece
from clustersim.program.ops import BACKWARD, Call, Compute, Key, Op, Wait

AXIS = "context"

BUFFERS = 4
"""Blocks that a GPU has room for beside its own keys or values: the one that it computes with and the one that it
receives, and as many gradients of them."""


def in_ring(piece: Piece) -> bool:
    """Say whether a piece is computed block by block while others' blocks are on their way."""
    return piece.num_blocks > 1


def moved_elements(piece: Piece) -> tuple[float, float]:
    """Return the elements a sample that copies and sums around a piece in a ring move, forward and backward.

    Of keys and queries the piece that makes scores has those, of values and outputs the one that mixes values.
    """
    layer, others = piece.layer, piece.num_blocks - 1
    if layer.output_elements:
        q, k = layer.output_elements, layer.input_elements
        return 2 * k + 4 * q + others * (0.5 * k + 2.25 * q), 5 * k + others * (2.75 * k + q)
    q = float(layer.shape["rows"] * layer.shape["inputs"] * layer.shape["count"])
    k = layer.input_elements - q
    return 2 * k + others * (0.5 * k + 0.5 * q), 5 * k + 3 * q + others * (2.75 * k + 2.75 * q)


def ring_ops(
    pieces: Sequence[Piece], times: Sequence[LayerTime], phase: str, micro: int, place: int, batch: int
) -> Iterator[Op]:
    """Go through what a GPU does in one pass of `pieces`, the layers of one attention, whose blocks go round together.

    `times` are those of all blocks, `place` is the attention's in the model, and `batch` the samples of a micro-batch.
    Products of activations have no gradients of weights, which a schedule could put off.
    """
    is_backward = phase == BACKWARD
    num, block_bytes = pieces[0].num_blocks, batch * sum(piece.block_bytes for piece in pieces)
    for step in range(num):
        sent = (step < num - 1) + (is_backward and step > 0)
        key = Key(f"keys and values {step} {phase}", micro, place)
        if sent:
            yield Call(key, "send-recv", AXIS, sent * block_bytes)
        for time in reversed(times) if is_backward else times:
            yield Compute(time.layer.name, (time.backward_s if is_backward else time.forward_s) / num, phase, micro)
        if sent:
            yield Wait(key)
