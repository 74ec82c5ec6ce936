"""Ring attention: blocks of keys and values pass from GPU to GPU, while each GPU computes with the block that it has.

Ring attention (Liu et al., arXiv:2310.01889). Each of c GPUs has 1 / c of the tokens. In each of c steps it computes
with one block of keys and values. Meanwhile it sends that block to the next GPU and receives the next block from the
GPU before. In the backward pass the blocks go around once more. Their gradients follow one step later, and end at the
GPU of the block, as in TransformerEngine (`context_parallel.py`, `AttnFuncWithCPAndKVP2P`: in the last step every GPU
has its own block). So a GPU sends, as a fraction of the keys and values of all tokens, (c - 1) / c forward, as in an
all-gather, and twice that backward. With b s of computing and t s of sending a block,

    forward   (c - 1) max(b, t) + b
    backward  2 max(b, t) + (c - 2) max(b, 2 t),  of b and t backward

Beside its kernels of attention, TransformerEngine copies and adds, counted in its source of early 2024 with a causal
mask (`FlashAttnUnpaddedFuncWithCP` in `transformer_engine/pytorch/attention.py`). Each GPU has two slices of tokens,
one from the front and one from the back, and computes with both in the step with its own block. Of the other c - 1
steps, half, in the mean over GPUs, use all its queries and the first slice of keys and values, which is copied; half
use the second slice of queries, copied, and all keys and values. In elements read or written, with q queries (as many
as outputs) and k keys (as many as values) of a GPU,

    forward   k and v are concatenated, 4 k, and outputs are set to zero, q; slices are copied, (c - 1) (k + q / 2); the
              output of each step is scaled and added, 3 q, or 3 q / 2 of a slice: 3 q + (c - 1) 9 q / 4
    backward  k and v are copied once more, 4 k; slices, with output and its gradient, (c - 1) (k + 3 q / 2);
              gradients are added, 3 q + 6 k and (c - 1) (9 q + 18 k) / 4

Left out: logarithms of the softmax's sums, and that the first gradients are copied and not added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.model import LayerTime
from clustersim.parallelism.pieces import Piece
from clustersim.program.issue import issue_times
from clustersim.program.ops import BACKWARD, Call, Compute, Key, Op, Wait

AXIS = "context"

BUFFERS = 4
"""Blocks for which a GPU has buffers beside its own keys or values: the one that it computes with, the one that it
receives, and as many gradients."""


def in_ring(piece: Piece) -> bool:
    """Return whether a piece is ring attention, computed block by block."""
    return piece.num_blocks > 1


def moved_elements(piece: Piece) -> tuple[float, float]:
    """Return the elements per sample that copies and sums around ring attention move, forward and backward.

    The piece that computes scores has those of keys and queries, the one that weighs values those of values and
    outputs.
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
    """Yield the operations of one pass of `pieces`, the layers of one attention whose blocks go around together.

    `times` are those of all blocks, `place` is the attention's index in the model, and `batch` the samples of a
    micro-batch. Products of activations have no gradients of weights that a schedule could defer.
    """
    is_backward = phase == BACKWARD
    num, block_bytes = pieces[0].num_blocks, batch * sum(piece.block_bytes for piece in pieces)
    for step in range(num):
        sent = (step < num - 1) + (is_backward and step > 0)
        key = Key(f"keys and values {step} {phase}", micro, place)
        if sent:
            yield Call(key, "send-recv", AXIS, sent * block_bytes)
        for time in reversed(times) if is_backward else times:
            seconds = (time.backward_s if is_backward else time.forward_s) / num
            issue = time.backward_issue if is_backward else time.forward_issue
            yield Compute(time.layer.name, seconds, phase, micro, issue=issue_times([(seconds, issue)]))
        if sent:
            yield Wait(key)
