"""Open MPI's choice of an algorithm: the fixed rules of its component `tuned`, which differ from MPICH's.

open-mpi/ompi, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c, `ompi_coll_tuned_allreduce_intra_dec_fixed`. Up to 4.0
it is one rule, the same in commit 010080ec and in release 1.6.5, which its authors had measured over Myrinet on a
cluster of the University of Tennessee. Pull request 7952 replaced it for 4.1 in 2020 by a table measured on several
developers' clusters (read at kunpengcompute/hmpi, commit 0e41238c).
"""

from __future__ import annotations

import math

from clustersim.collectives.choose import FLOAT_BYTES
from clustersim.collectives.segmented_ring import SEGMENT_BYTES

OPEN_MPI_4_0 = "open-mpi-4.0"
OPEN_MPI_4_1 = "open-mpi-4.1"
"""Names of these choices in scenarios."""

_SHORT_BYTES = 10_000

_OF_4_1: tuple[tuple[float, tuple[tuple[float, str], ...]], ...] = (
    (4, ((8, "ring"), (4096, "doubling"), (8192, "ring"), (16384, "doubling"), (262144, "ring"))),
    (8, ((16, "ring"), (8192, "doubling"))),
    (16, ((8192, "doubling"),)),
    (32, ((64, "ring"), (4096, "doubling"))),
    (64, ((128, "ring"),)),
    (128, ((262144, "doubling"),)),
    (256, ((131072, "tree"), (262144, "doubling"))),
    (512, ((4096, "tree"),)),
    (2048, ((2048, "tree"), (16384, "doubling"))),
    (4096, ((2048, "tree"), (4096, "ring"), (16384, "doubling"))),
    (math.inf, ((2048, "tree"), (16384, "ring"), (32768, "doubling"), (math.inf, "ring"))),
)
"""For fewer ranks than the first number, below so many bytes; above the last size, halving and doubling."""


def open_mpi_choice(num_bytes: float, num_ranks: int) -> str:
    """Return the all-reduce of Open MPI up to 4.0: recursive doubling below 10,000 bytes, rings above.

    Above n MiB the ring is divided into segments. Buffers with no more elements than ranks are reduced to one rank and
    broadcast, for which binomial trees are used here.

    >>> [open_mpi_choice(size, num_ranks=4) for size in (9_999, 10_000, 4 * 2**20, 4 * 2**20 + 4)]
    ['doubling', 'ring', 'ring', 'segmented-ring']
    """
    if num_bytes < _SHORT_BYTES:
        return "doubling"
    if num_bytes / FLOAT_BYTES <= num_ranks:
        return "tree"
    return "ring" if num_bytes <= num_ranks * SEGMENT_BYTES else "segmented-ring"


def open_mpi_4_1_choice(num_bytes: float, num_ranks: int) -> str:
    """Return the all-reduce of Open MPI 4.1: Rabenseifner's, above a size that depends on the ranks.

    It calls its segmented ring without a segment size here, so it is a ring; a ring of fewer elements than ranks is
    recursive doubling. Binomial trees represent a reduction and a broadcast after it.

    >>> [open_mpi_4_1_choice(1e6, num_ranks) for num_ranks in (3, 64, 8192)]
    ['halving-doubling', 'halving-doubling', 'ring']
    """
    sizes = next(sizes for ranks, sizes in _OF_4_1 if num_ranks < ranks)
    name = next((name for size, name in sizes if num_bytes < size), "halving-doubling")
    return "doubling" if name == "ring" and num_bytes / FLOAT_BYTES < num_ranks else name
