"""Memory of what is temporarily unsharded: weights of the blocks in use, and gradients before their reduce-scatter.

A block's weights are whole while it computes, and so are those of the next block, which are gathered meanwhile. Its
gradients are whole until they are reduce-scattered, which overlaps with the backward pass of the next block (ZeRO
stages 2 and 3).

FSDP (torch/distributed/fsdp, `_post_forward_reshard` and `_fsdp_param_group.py`) keeps the unsharded weights of its
root module (the layers outside the blocks of a transformer) from their first use to the end of the backward pass, since
the backward pass begins with them; their gradients wait for its end. A block's gradients are copied, in the format of
the reduction, into one buffer (`reduce_scatter_input`), which is freed when the next block's have been copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from clustersim.model import Layer


def unsharded_bytes(
    blocks: Sequence[Sequence[Layer]],
    sharding: str | None,
    weight_bytes: float,
    gradient_bytes: float,
    by_fsdp: bool,
) -> float:
    """Return the peak bytes of what is whole at once; sizes are those of a weight as layers read it and of a gradient.

    `blocks` are in the order of computation.
    """
    if sharding not in ("zero-2", "zero-3"):
        return 0.0
    sizes = [float(sum(layer.num_parameters for layer in block)) for block in blocks]
    if not by_fsdp:
        return (weight_bytes * (sharding == "zero-3") + gradient_bytes) * largest_pair(sizes)
    inside = [any(layer.op == "matmul" for layer in block) for block in blocks]
    if not any(inside):
        inside = [True] * len(blocks)
    own = [size for size, is_inside in zip(sizes, inside, strict=True) if is_inside]
    root = [size for size, is_inside in zip(sizes, inside, strict=True) if not is_inside]
    gathered = sum(root) + largest_pair(own)
    return weight_bytes * (gathered + max(root, default=0.0) + max(own)) + gradient_bytes * max(own)


def largest_pair(sizes: Sequence[float]) -> float:
    """Return the largest sum of two neighbours.

    >>> largest_pair([3.0, 1.0, 2.0, 3.0]), largest_pair([4.0])
    (5.0, 4.0)
    """
    return max((first + second for first, second in pairwise(sizes)), default=max(sizes, default=0.0))
