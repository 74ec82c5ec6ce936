"""What FSDP copies around the collectives of what is shared out: weights that it has gathered, and gradients.

Counted in PyTorch's source, in bytes of a parameter that cross the GPU's memory, with w of a weight as layers read it
and g of a gradient as it is summed:

- `parameters` (FSDP2, torch/distributed/_composable/fsdp/_fsdp_collectives.py, commit 01d66d21). What is gathered is
  copied from one buffer into the tensors of the parameters (`foreach_all_gather_copy_out`), 2 w at each gathering;
  gradients go into one buffer, cast on the way (`foreach_reduce_scatter_copy_in`), w + g.
- `flat` (FSDP1, torch/distributed/fsdp/_runtime_utils.py, commit 00ae0bc9, `_post_backward_hook`). Parameters are views
  of one tensor, into which is gathered. Autograd puts the gradients of the views together, 2 w, a kernel of its own
  casts them where they are summed in another width, w + g, and another divides them, 2 g (`_reduce_grad`: by about the
  root of the GPUs before the sum, to neither over- nor underflow, and by the rest behind it).
- `flat-padded` (FSDP1 until PyTorch 2.0, `_post_backward_hook` in torch/distributed/fsdp/fully_sharded_data_parallel.py
  of 1.13). The same, and gradients are copied before they are divided, 2 g, to be padded to a multiple of the GPUs
  (`F.pad`, also by nothing).

A layer waits for both. Left out: copies, casts and sums of a GPU's own share, 1 / n of it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import constants_of

ShardingCopies = Literal["none", "flat", "flat-padded", "parameters"]


class BufferCopies(NamedTuple):
    """Seconds a parameter of what is copied behind each gathering of weights, and before each sum of gradients."""

    gathered_s: float = 0.0
    reduced_s: float = 0.0


NO_COPIES = BufferCopies()


def moved_bytes(kind: ShardingCopies, weight_bytes: float, gradient_bytes: float) -> tuple[float, float]:
    """Return the bytes a parameter that copies move, behind a gathering and before a sum.

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
    """Return how long the copies take on a GPU, at the memory rate that its element-wise kernels reach."""
    rate = constants_of(gpu, units).memory_efficiency * gpu.memory_bytes_per_s
    gathered, reduced = moved_bytes(kind, weight_bytes, gradient_bytes)
    return BufferCopies(gathered / rate, reduced / rate)
