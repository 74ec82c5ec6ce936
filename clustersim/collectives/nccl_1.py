"""NCCL 1's collectives: one ring of the GPUs of one host, in the order of their numbers.

NVIDIA/nccl, src/core.cu, commit 6db8cfde: `orderRanks` sorts ranks by NVML's number of their GPU, which goes by the PCI
bus, and `commBuildMaps` gives each the next one as neighbour, NVLinks or not. Every collective is a kernel of one
block of threads (`grid(1, 1, 1)`, src/common_coll.h).
"""

from __future__ import annotations

import numpy as np

NCCL_1 = "nccl-1"
"""What scenarios call it."""

NCCL_1_CHANNELS = 1
"""Blocks of threads of a collective on each GPU."""


def nccl_1_ring(gpus: np.ndarray) -> np.ndarray:
    """Return the ranks of GPUs [num_ranks] in the order of the one ring.

    >>> nccl_1_ring(np.array([5, 0, 4])).tolist()
    [1, 2, 0]
    """
    return np.argsort(gpus)
