"""NCCL 1's collectives: one ring of the GPUs of one host, in the order of their numbers.

NVIDIA/nccl, src/core.cu, commit 6db8cfde: `orderRanks` sorts ranks by the NVML number of their GPU, which is the order
on the PCI bus, and `commBuildMaps` makes the next rank the neighbour, with NVLinks or without. Every collective is a
kernel with one thread block (`grid(1, 1, 1)`, src/common_coll.h). The block reads, adds and writes everything that its
GPU sends and keeps (`AllReduceKernel` in src/all_reduce.cu).
"""

from __future__ import annotations

import numpy as np

NCCL_1 = "nccl-1"
NCCL_1_PROCESSES = "nccl-1-processes"
"""Its names in scenarios: with one process for all GPUs of the host, and with one process for each GPU."""

OF_NCCL_1 = (NCCL_1, NCCL_1_PROCESSES)

NCCL_1_CHANNELS = 1
"""Thread blocks of a collective on each GPU."""


def nccl_1_ring(gpus: np.ndarray) -> np.ndarray:
    """Return the ranks of GPUs [num_ranks] in the order of the one ring.

    >>> nccl_1_ring(np.array([5, 0, 4])).tolist()
    [1, 2, 0]
    """
    return np.argsort(gpus)


def block_moves(num_ranks: int, processes: bool) -> np.ndarray:
    """Return the bytes that a rank's thread block reads and writes per byte of a chunk, in each step of the ring.

    It reads what it sends and writes it (2), and reads what it received as well if it adds (3); it also keeps the
    complete sum (4). With one process sums are then written to their final place, and are passed on from there (2).
    With a process for each GPU they are written into a buffer, from which they are passed on and copied (3), in the
    last step only copied (2): that copy uses no link, and is counted in the step before (`PUSHRECV`).

    >>> block_moves(2, processes=False).tolist(), block_moves(4, processes=True).tolist()
    ([2.0, 4.0], [2.0, 3.0, 3.0, 4.0, 3.0, 3.0])
    """
    passed_on = 3.0 if processes else 2.0
    return np.array([2.0, *[3.0] * (num_ranks - 2), 4.0, *[passed_on] * (num_ranks - 2)])


LAST_COPY_MOVES = 2.0
"""Bytes read and written per byte of a chunk at the end, if the chunk is in a buffer and nothing is sent."""
