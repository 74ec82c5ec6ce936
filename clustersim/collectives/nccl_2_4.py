"""NCCL 2.4's choice between rings and double trees, later replaced by the estimate in `clustersim.collectives.nccl`.

Constants and formulas: NCCL 2.4 (2019), `src/init.cu`, `ncclTreeThreshold`. Between two hosts a tree has a higher rate
than a ring only with NVLinks; without them trees are for small messages.
"""

from __future__ import annotations

import math

_RING_STEP_S, _TREE_INSIDE_S, _TREE_BETWEEN_S = 6e-6, 4e-6, 15e-6
_CHANNEL_BYTES_PER_S = 5e9

NCCL_2_4 = "nccl-2.4"
"""Its name in scenarios."""


def nccl_2_4_choice(
    num_bytes: float, num_ranks: int, num_hosts: int, num_channels: int = 1, nvlink: bool = False
) -> str:
    """Return the all-reduce that NCCL 2.4 chooses.

    >>> [nccl_2_4_choice(size, num_ranks=8, num_hosts=2) for size in (150e3, 151e3)]
    ['double-tree', 'ring']
    """
    return "double-tree" if num_bytes <= tree_threshold_bytes(num_ranks, num_hosts, num_channels, nvlink) else "ring"


def tree_threshold_bytes(num_ranks: int, num_hosts: int, num_channels: int = 1, nvlink: bool = False) -> float:
    """Return the largest size for which NCCL 2.4 chooses trees: B_ring B_tree / (B_ring - B_tree) (t_ring - t_tree).

    t_ring = 6 us (n - 1); t_tree = 15 us floor(log2 hosts) + 4 us (n / hosts - 1), with whole numbers of GPUs per host.
    B_ring = 5 GB/s, with NVLink 5 GB/s per channel; B_tree = 2/3 of it, with NVLink 3/4, and twice that between two
    hosts, for which there is no limit. 0 in one host, and if t_ring is not more than t_tree.
    """
    ring_s = _RING_STEP_S * (num_ranks - 1)
    tree_s = _TREE_BETWEEN_S * math.floor(math.log2(num_hosts)) + _TREE_INSIDE_S * (num_ranks // num_hosts - 1)
    if num_hosts < 2 or ring_s <= tree_s:
        return 0.0
    ring = _CHANNEL_BYTES_PER_S * (num_channels if nvlink else 1)
    tree = ring * ((0.75 * (2 if num_hosts == 2 else 1)) if nvlink else 2 / 3)
    return math.inf if tree > ring else ring * tree / (ring - tree) * (ring_s - tree_s)
