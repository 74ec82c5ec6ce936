"""NCCL 1's collectives: one ring of the GPUs of one host, in the order of their numbers.

NVIDIA/nccl, src/core.cu, commit 6db8cfde: `orderRanks` sorts ranks by NVML's number of their GPU, which goes by the PCI
bus, and `commBuildMaps` gives each the next one as neighbour, NVLinks or not. Every collective is a kernel of one
block of threads (`grid(1, 1, 1)`, src/common_coll.h), which reads, adds and writes all that its GPU sends and keeps
(`AllReduceKernel` in src/all_reduce.cu).
"""

from __future__ import annotations

import numpy as np

NCCL_1 = "nccl-1"
NCCL_1_PROCESSES = "nccl-1-processes"
"""What scenarios call it where one process has all GPUs of the host, and where each has a process of its own."""

OF_NCCL_1 = (NCCL_1, NCCL_1_PROCESSES)

NCCL_1_CHANNELS = 1
"""Blocks of threads of a collective on each GPU."""


def nccl_1_ring(gpus: np.ndarray) -> np.ndarray:
    """Return the ranks of GPUs [num_ranks] in the order of the one ring.

    >>> nccl_1_ring(np.array([5, 0, 4])).tolist()
    [1, 2, 0]
    """
    return np.argsort(gpus)


def block_moves(num_ranks: int, processes: bool) -> np.ndarray:
    """Return the bytes that the block of a rank reads and writes for each byte of a chunk, in each step of the ring.

    It reads what it sends and writes it (2), and what it has been sent, too, where it adds (3); the sum that is
    complete it also keeps (4). In one process sums then come to where they belong, and are passed on from there (2).
    With a process for each GPU all comes into a buffer, from which it is passed on and copied (3), in the last step
    only copied (2): that has the wire to itself by then, and counts with the step before (`PUSHRECV`).

    >>> block_moves(2, processes=False).tolist(), block_moves(4, processes=True).tolist()
    ([2.0, 4.0], [2.0, 3.0, 3.0, 4.0, 3.0, 3.0])
    """
    passed_on = 3.0 if processes else 2.0
    return np.array([2.0, *[3.0] * (num_ranks - 2), 4.0, *[passed_on] * (num_ranks - 2)])


LAST_COPY_MOVES = 2.0
"""What it reads and writes at the end for each byte of a chunk, where it lies in a buffer, and nothing is sent."""
