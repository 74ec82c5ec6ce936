"""What is whole for a while of what copies share out: weights of blocks in use, and gradients on their way.

A block's weights are whole while it computes, and those of the next one as they are gathered meanwhile; its gradients
are whole until they are shared out, which goes on while the next block's are made (ZeRO stages 2 and 3).

FSDP (torch/distributed/fsdp, `_post_forward_reshard` and `_fsdp_param_group.py`) does not let go of its root's weights,
which are what lies in no block of a transformer, from their first use to the end of backward, since backward begins
with them; their gradients wait for its end. A block's gradients are copied, as wide as they are summed up, into one
buffer (`reduce_scatter_input`), which stays until the next block's are to be copied, beside those.
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
    """Return the bytes of what is whole at once at most, by those of a parameter that layers read and of a gradient.

    `blocks` are in the order in which they compute.
    """
    if sharding not in ("zero-2", "zero-3"):
        return 0.0
    sizes = [float(sum(layer.num_parameters for layer in block)) for block in blocks]
    if not by_fsdp:
        return (weight_bytes * (sharding == "zero-3") + gradient_bytes) * _largest_pair(sizes)
    inside = [any(layer.op == "matmul" for layer in block) for block in blocks]
    if not any(inside):
        inside = [True] * len(blocks)
    own = [size for size, is_inside in zip(sizes, inside, strict=True) if is_inside]
    root = [size for size, is_inside in zip(sizes, inside, strict=True) if not is_inside]
    gathered = sum(root) + _largest_pair(own)
    return weight_bytes * (gathered + max(root, default=0.0) + max(own)) + gradient_bytes * max(own)


def _largest_pair(sizes: Sequence[float]) -> float:
    """Return the most that two next to each other come to.

    >>> _largest_pair([3.0, 1.0, 2.0, 3.0]), _largest_pair([4.0])
    (5.0, 4.0)
    """
    return max((first + second for first, second in pairwise(sizes)), default=max(sizes, default=0.0))
