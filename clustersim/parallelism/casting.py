"""Element sizes of a model that is divided: cast as a whole, gathered from fp32, and around its loss."""

from __future__ import annotations

from clustersim.kernels.layer_times import Library
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.spec import Parallelism

_IN_PLACE, _PLAIN, _SPLIT = 2.0, 8.0, 12.0


def casts_model(layout: Parallelism, grid: Grid) -> bool:
    """Return whether a model is cast as a whole, as codes do that divide it or shard replicas.

    Unsharded replicas of the whole model are taken to be trained under autocast.
    """
    return layout.kind == "grid" and (grid.num_ranks > grid.data or layout.sharding is not None)


def gathers_from_fp32(layout: Parallelism) -> bool:
    """Return whether weight shards are stored in fp32 only and cast when gathered (FSDP; see `sharding_copies`)."""
    return layout.sharding == "zero-3" and layout.sharding_copies != "none"


def loss_peak_bytes(library: Library, grid: Grid) -> float:
    """Return the bytes of a logit in the backward pass of the loss, beside the 4 that are stored of it for that.

    PyTorch has the gradients of both in fp32. If the columns of the last layer are split over GPUs, its `loss_parallel`
    has three more tensors of this size, `(grad_input + torch.exp(x)) * grad_output`
    (torch/distributed/tensor/parallel/loss.py). Megatron-LM writes the gradient in place of what it stored and also has
    it in 16 bits (megatron/core/tensor_parallel/cross_entropy.py, `torch.exp(..., out=...)`, `grad_input = softmax`).
    """
    if library == "megatron":
        return _IN_PLACE
    return _PLAIN if grid.tensor == 1 else _SPLIT
