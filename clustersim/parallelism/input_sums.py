"""How often a tensor parallel group all-reduces the gradient of an input that several matrix products read.

Megatron-LM has one matrix for queries, keys and values and one for both halves of a gated feed-forward layer. So each
reads its input once, and the GPUs all-reduce its gradient once (`joined`). A code that splits the matrices of Hugging
Face's Llama one by one does so for every matrix (`each`): `q_proj`, `k_proj`, `v_proj`, and `gate_proj`, `up_proj`.
ATorch's `ColumnParallelLinear` copies its input to the group, an identity forward and an all-reduce backward
(`copy_to_group` in atorch/modules/distributed_modules/layers.py and mappings.py, intelligent-machine-learning/dlrover,
commit 2652deff, `async_grad_allreduce=False`). So a block with five matrices all-reduces 5 gradients backward, not 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from clustersim.parallelism.pieces import Piece

InputSums = Literal["joined", "each"]


def with_sum_per_matrix(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return pieces that all-reduce the gradient of their input once for each matrix that reads it.

    One matrix before an attention counts as three, since a model has those of queries, keys and values as one layer.
    """
    return tuple(
        replace(piece, after_backward=piece.after_backward * _num_matrices(pieces, place))
        if piece.layer.op == "fully-connected"
        else piece
        for place, piece in enumerate(pieces)
    )


def _num_matrices(pieces: Sequence[Piece], place: int) -> int:
    """Return how many matrices of the original code a layer stands for."""
    count = pieces[place].layer.shape.get("count", 1)
    if count > 1:
        return count
    behind = next((each.layer for each in pieces[place + 1 :] if each.layer.op in ("fully-connected", "matmul")), None)
    return 3 if behind is not None and behind.op == "matmul" else 1
