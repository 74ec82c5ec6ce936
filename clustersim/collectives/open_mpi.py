"""What Open MPI up to 4.0 chooses: the fixed rule of its component `tuned`, unlike that of MPICH.

open-mpi/ompi, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c, `ompi_coll_tuned_allreduce_intra_dec_fixed`: the same
in commit 010080ec, in release 1.6.5, and until pull request 7952 replaced it for 4.1 in 2020. Its authors measured it
over Myrinet on a cluster of the University of Tennessee.
"""

from __future__ import annotations

from clustersim.collectives.choose import FLOAT_BYTES
from clustersim.collectives.segmented_ring import SEGMENT_BYTES

OPEN_MPI_4_0 = "open-mpi-4.0"
"""What scenarios call this choice."""

_SHORT_BYTES = 10_000


def open_mpi_choice(num_bytes: float, num_ranks: int) -> str:
    """Return the all-reduce that Open MPI up to 4.0 takes: recursive doubling below 10,000 bytes, rings above.

    Above n MiB the ring is cut into segments. Buffers with no more numbers than there are ranks are reduced to one
    rank and broadcast, for which binomial trees stand here.

    >>> [open_mpi_choice(size, num_ranks=4) for size in (9_999, 10_000, 4 * 2**20, 4 * 2**20 + 4)]
    ['doubling', 'ring', 'ring', 'segmented-ring']
    """
    if num_bytes < _SHORT_BYTES:
        return "doubling"
    if num_bytes / FLOAT_BYTES <= num_ranks:
        return "tree"
    return "ring" if num_bytes <= num_ranks * SEGMENT_BYTES else "segmented-ring"
