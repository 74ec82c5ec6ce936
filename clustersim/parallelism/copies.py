"""What FSDP copies around the collectives of what is shared out: weights that it has gathered, and gradients.

Counted in PyTorch's source, in bytes of a parameter that cross the GPU's memory, with w of a weight as layers read it
and g of a gradient as it is summed:

- `parameters` (FSDP2, torch/distributed/_composable/fsdp/_fsdp_collectives.py, commit 01d66d21). What is gathered is
  copied from one buffer into the tensors of the parameters (`foreach_all_gather_copy_out`), 2 w at each gathering;
  gradients go into one buffer, cast on the way (`foreach_reduce_scatter_copy_in`), w + g.
- `flat` (FSDP1, torch/distributed/fsdp/_runtime_utils.py, commit 00ae0bc9, `_post_backward_hook`). Parameters are views
  of one tensor, into which is gathered. Autograd puts the gradients of the views together, 2 w, and a kernel of its own
  casts them where they are summed in another width, w + g.

A layer waits for both. Left out: copies of a GPU's own share, 1 / n of it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from clustersim.hardware.sheet import Gpu
from clustersim.workload.kernel_constants import constants_of

ShardingCopies = Literal["none", "flat", "parameters"]


class CopiesAround(NamedTuple):
    """Seconds a parameter of what is copied behind each gathering of weights, and before each sum of gradients."""

    gathered_s: float = 0.0
    reduced_s: float = 0.0


NO_COPIES = CopiesAround()


def moved_bytes(kind: ShardingCopies, weight_bytes: float, gradient_bytes: float) -> tuple[float, float]:
    """Return the bytes a parameter that copies move, behind a gathering and before a sum.

    >>> moved_bytes("parameters", 2, 4), moved_bytes("flat", 2, 4), moved_bytes("flat", 2, 2)
    ((4, 6), (0, 10), (0, 4))
    """
    if kind == "parameters":
        return 2 * weight_bytes, weight_bytes + gradient_bytes
    if kind == "flat":
        cast = weight_bytes + gradient_bytes if gradient_bytes != weight_bytes else 0
        return 0, 2 * weight_bytes + cast
    return 0, 0


def copies_around(
    kind: ShardingCopies, gpu: Gpu, units: str, weight_bytes: float, gradient_bytes: float
) -> CopiesAround:
    """Return how long the copies take on a GPU, at the memory rate that its element-wise kernels reach."""
    rate = constants_of(gpu, units).memory_efficiency * gpu.memory_bytes_per_s
    gathered, reduced = moved_bytes(kind, weight_bytes, gradient_bytes)
    return CopiesAround(gathered / rate, reduced / rate)
