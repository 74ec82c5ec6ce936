"""How wide the numbers of a divided model are in memory: cast as a whole, gathered from fp32, and around its loss."""

from __future__ import annotations

from clustersim.kernels.layer_times import Library
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.spec import Parallelism

_IN_PLACE, _PLAIN, _SPLIT = 2.0, 8.0, 12.0


def casts_model(layout: Parallelism, grid: Grid) -> bool:
    """Say whether a model is cast as a whole, as those do who divide it or share out what copies have.

    Copies that have all of it are taken to be trained under autocast.
    """
    return layout.kind == "grid" and (grid.num_ranks > grid.data or layout.sharding is not None)


def gathers_from_fp32(layout: Parallelism) -> bool:
    """Say whether shares of weights are kept in fp32 alone and cast as they are gathered: FSDP's, whose copies tell."""
    return layout.sharding == "zero-3" and layout.sharding_copies != "none"


def loss_peak_bytes(library: Library, grid: Grid) -> float:
    """Return the bytes of a logit in the turn of the loss, beside the 4 that are kept of it for that.

    PyTorch has the gradients of both in fp32. Where the words of the last layer are divided over GPUs, its
    `loss_parallel` has three more tensors as large, `(grad_input + torch.exp(x)) * grad_output`
    (torch/distributed/tensor/parallel/loss.py). Megatron-LM makes the gradient in place of what it kept and has that in
    16 bits as well (megatron/core/tensor_parallel/cross_entropy.py, `torch.exp(..., out=...)`, `grad_input = softmax`).
    """
    if library == "megatron":
        return _IN_PLACE
    return _PLAIN if grid.tensor == 1 else _SPLIT
