"""Muon (Jordan et al., 2024): matrices are updated by their momentum, made orthogonal by Newton-Schulz products.

As in torch.optim.Muon (pytorch/pytorch, torch/optim/_muon.py, commit 098e03f9): the momentum of a matrix of k rows and
l >= k columns (or its transpose) is cast to 16 bits and divided by its norm. Each of `NEWTON_SCHULZ_STEPS` steps is

    A = X X^T,  B = b A + c A A,  X = a X + B X:    4 k^2 l + 2 k^3 FLOP

in three GEMMs, which have the time of any other GEMM of their shape, and two element-wise kernels on A and X. Matrices
are those of linear layers, routers and experts inside the model; embeddings, the output head, biases and norms are
updated by Adam (`get_megatron_muon_optimizer` in megatron/core/optimizer/muon.py, NVIDIA/Megatron-LM, commit 025c931a).

A product of several matrices with one input (query, key and value) counts as the matrices of its layer: one joined
matrix counts as one (Megatron-LM, `split_qkv=False`). A matrix that tensor parallelism splits is orthogonalized part by
part (`--muon-tp-mode blockwise` there). Left out: the host's time to issue some 30 more operators for each matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import constants_of, moved_s
from clustersim.kernels.kernel_model import gemm_seconds, plain_gemm, rates_of
from clustersim.model.layer import Layer
from clustersim.model.precision import PRECISIONS

NEWTON_SCHULZ_STEPS = 5
OPERAND_BYTES = 2.0
"""Bytes of an element of a momentum that is orthogonalized or gathered (`grad.bfloat16()`)."""

MATRIX_BYTES = 30.0
"""Bytes of a matrix's parameter that element-wise kernels move beside the steps: its fp32 gradient and momentum are
read, the momentum and a 16-bit copy are written (14), which is read for its norm and divided by that (6), and the fp32
weight is read and written with the update read (10)."""

STEP_BYTES = 6.0
"""Bytes of an element of A and of X that the two element-wise kernels of a step move: two operands and a result."""

_MATRIX_OPS = frozenset({"fully-connected", "experts", "router"})
_FORMATS = ("amp-bf16", "amp-fp16", "tf32", "fp32")


class Matrices(NamedTuple):
    """`number` matrices of one shape."""

    rows: int
    columns: int
    number: int

    @property
    def num_parameters(self) -> float:
        """Parameters of all of them."""
        return float(self.rows * self.columns * self.number)


def matrices_of(layers: Sequence[Layer]) -> tuple[Matrices | None, ...]:
    """Return the matrices of each layer that Muon updates [num_layers]; None where Adam updates all parameters.

    `layers` are those of a whole model, or of a stage with the loss behind its last layer.

    >>> from clustersim.model import load_model
    >>> found = [each for each in matrices_of(load_model("llama-2-7b").layers) if each]
    >>> found[0], sum(each.number for each in found)
    (Matrices(rows=12288, columns=4096, number=1), 160)
    """
    readers = (*layers[1:], None)
    return tuple(_matrices(layer, reader) for layer, reader in zip(layers, readers, strict=True))


def _matrices(layer: Layer, reader: Layer | None) -> Matrices | None:
    is_head = reader is not None and reader.op == "loss"
    if layer.op not in _MATRIX_OPS or not layer.num_parameters or not layer.shape or is_head:
        return None
    rows, columns = layer.shape["outputs"], layer.shape["inputs"]
    count = layer.num_parameters // (rows * columns)
    return Matrices(rows, columns, count) if count else None


def newton_schulz_flop(rows: float, columns: float) -> float:
    """Return the FLOP of orthogonalizing one matrix.

    >>> newton_schulz_flop(4096, 4096) / 4096**3
    30.0
    """
    short, long = min(rows, columns), max(rows, columns)
    return NEWTON_SCHULZ_STEPS * (4.0 * short**2 * long + 2.0 * short**3)


def newton_schulz_s(rows: int, columns: int, gpu: Gpu) -> float:
    """Return the seconds of orthogonalizing one matrix: its GEMMs by their shapes, and the element-wise kernels.

    GEMMs are in 16 bits, or in 32 where the GPU's sheet has no rate of 16.
    """
    name = next(name for name in _FORMATS if name in gpu.flop_per_s)
    number, short, long = PRECISIONS[name], min(rows, columns), max(rows, columns)
    constants, rates = constants_of(gpu, number.units), rates_of(gpu, name)
    # X X^T has the layout of a forward pass (both operands row by row), A A and B X that of a gradient of data.
    gemms = [
        plain_gemm(short, short, long, 1, "forward", constants, number.operand_bytes),
        plain_gemm(short, short, short, 1, "backward_data", constants, number.operand_bytes),
        plain_gemm(short, long, short, 1, "backward_data", constants, number.operand_bytes),
    ]
    products_s = float(gemm_seconds(gemms, rates, constants).sum())
    element_wise_s = moved_s(STEP_BYTES * (short**2 + short * long), gpu, launches=2)
    return NEWTON_SCHULZ_STEPS * (products_s + element_wise_s)


class MatrixTime(NamedTuple):
    """Seconds of orthogonalizing one matrix, and how many there are."""

    seconds: float
    number: int


def matrix_times(found: Sequence[Matrices | None], gpu: Gpu) -> tuple[MatrixTime, ...]:
    """Return the seconds of the matrices of a model or a stage, by shape."""
    counts: dict[tuple[int, int], int] = {}
    for each in found:
        if each is not None:
            counts[each[:2]] = counts.get(each[:2], 0) + each.number
    return tuple(MatrixTime(newton_schulz_s(*shape, gpu), count) for shape, count in counts.items())


_MOST_PLACED = 20_000


def shared_out_s(times: Sequence[MatrixTime], num_ranks: int) -> float:
    """Return the seconds of the rank with the most work if each matrix is orthogonalized whole by one of the ranks.

    Matrices are handed out one by one, the longest first, each to the rank with the least work; of more than 20,000
    matrices those of one shape are dealt out evenly, rounded up.

    >>> shared_out_s([MatrixTime(2.0, 3), MatrixTime(1.0, 2)], 2)
    4.0
    """
    if num_ranks == 1:
        return sum(each.seconds * each.number for each in times)
    if sum(each.number for each in times) > _MOST_PLACED:
        return sum(each.seconds * ceil(each.number / num_ranks) for each in times)
    ranks = [0.0] * num_ranks
    for seconds, count in sorted(times, reverse=True):
        for _ in range(count):
            heappush(ranks, heappop(ranks) + seconds)
    return max(ranks)
