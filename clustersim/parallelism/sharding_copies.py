"""Copies that FSDP makes in GPU memory around its collectives: of gathered weights, and of gradients.

Counted in PyTorch's source, in bytes of a parameter read from or written to GPU memory. w is the size of a weight as
layers read it, g that of a gradient as it is summed:

- `parameters` (FSDP2, torch/distributed/_composable/fsdp/_fsdp_collectives.py, commit 01d66d21). Gathered weights are
  copied from one buffer into the tensors of the parameters (`foreach_all_gather_copy_out`), 2 w per all-gather;
  gradients are copied into one buffer and cast (`foreach_reduce_scatter_copy_in`), w + g.
- `flat` (FSDP1, torch/distributed/fsdp/_runtime_utils.py, commit 00ae0bc9, `_post_backward_hook`). Parameters are views
  of one tensor, into which weights are gathered. Autograd concatenates the gradients of the views, 2 w; a separate
  kernel casts them if they are summed in another format, w + g; and another divides them, 2 g (`_reduce_grad`: by about
  the square root of the number of GPUs before the sum, against overflow and underflow, and by the rest after it).
- `flat-padded` (FSDP1 until PyTorch 2.0, `_post_backward_hook` in torch/distributed/fsdp/fully_sharded_data_parallel.py
  of 1.13). The same; in addition gradients are copied before they are divided, 2 g, to pad them to a multiple of the
  number of GPUs (`F.pad`, also where there is nothing to pad).

A layer waits for both. Left out: copies, casts and sums of a GPU's own shard, 1 / n of the whole.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import constants_of

ShardingCopies = Literal["none", "flat", "flat-padded", "parameters"]


class BufferCopies(NamedTuple):
    """Seconds per parameter of the copies after each all-gather of weights, and before each reduction of gradients."""

    gathered_s: float = 0.0
    reduced_s: float = 0.0

    def scaled(self, factor: float) -> BufferCopies:
        """Return the copies of a GPU that takes `factor` times as long."""
        return BufferCopies(factor * self.gathered_s, factor * self.reduced_s)


NO_COPIES = BufferCopies()


def moved_bytes(kind: ShardingCopies, weight_bytes: float, gradient_bytes: float) -> tuple[float, float]:
    """Return the bytes per parameter that copies move, after an all-gather and before a reduction.

    >>> moved_bytes("parameters", 2, 4), moved_bytes("flat", 2, 4), moved_bytes("flat-padded", 2, 2)
    ((4, 6), (0, 18), (0, 12))
    """
    if kind == "parameters":
        return 2 * weight_bytes, weight_bytes + gradient_bytes
    if kind == "none":
        return 0, 0
    cast = weight_bytes + gradient_bytes if gradient_bytes != weight_bytes else 0
    kernels = 2 if kind == "flat-padded" else 1
    return 0, 2 * weight_bytes + cast + kernels * 2 * gradient_bytes


def buffer_copies(
    kind: ShardingCopies, gpu: Gpu, units: str, weight_bytes: float, gradient_bytes: float
) -> BufferCopies:
    """Return the seconds of the copies on a GPU, at the memory rate of its element-wise kernels."""
    rate = constants_of(gpu, units).memory_efficiency * gpu.memory_bytes_per_s
    gathered, reduced = moved_bytes(kind, weight_bytes, gradient_bytes)
    return BufferCopies(gathered / rate, reduced / rate)
