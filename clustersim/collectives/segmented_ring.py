"""Open MPI's ring all-reduce with a reduce-scatter in phases: each rank's block is sent in segments of about 1 MiB.

`ompi_coll_base_allreduce_intra_ring_segmented` (open-mpi/ompi, ompi/mca/coll/base/coll_base_allreduce.c).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from clustersim.collectives.checks import Cost, check_at_least_one, check_collective
from clustersim.collectives.schedule import Schedule, Step

SEGMENT_BYTES = 1 << 20
"""Segment of a block that Open MPI up to 4.0 sends at once (coll_tuned_decision_fixed.c)."""


def segmented_ring_all_reduce(num_ranks: int, num_bytes: float, num_phases: int | None = None) -> Schedule:
    """Schedule a ring all-reduce in segments: one reduce-scatter per phase, then one all-gather.

    (p + 1) (n - 1) steps for p phases, in which each rank sends 2 (n - 1) / n of the buffer as in `ring`. By default
    segments are of about 1 MiB, and buffers of up to n MiB have one phase, which is `ring`.

    >>> schedule = segmented_ring_all_reduce(4, 12 * 2.0**20)
    >>> schedule.num_steps, [schedule.step(number).num_bytes.max().item() / 2**20 for number in (0, 11)]
    (12, [1.0, 3.0])
    """
    check_collective(num_ranks, num_bytes)
    phases = phases_of(num_ranks, num_bytes) if num_phases is None else num_phases
    check_at_least_one("num_phases", phases)
    rank, num_steps = np.arange(num_ranks), num_ranks - 1
    adding = Schedule.repeat(
        num_steps=phases * num_steps,
        src=rank,
        dst=(rank + 1) % num_ranks,
        num_bytes=num_bytes / num_ranks / phases,
        chunk=lambda step: (rank - step % num_steps) % num_ranks * phases + step // num_steps,
        reduce=lambda step: True,
        granularity=num_ranks * phases,
    )

    def gather(step: int) -> Step:
        block = (rank + 1 - step) % num_ranks
        return Step.of(rank, (rank + 1) % num_ranks, num_bytes / num_ranks, block * phases, phases)

    def pattern(step: int) -> Hashable:
        return 0

    gathering = Schedule(num_ranks, num_steps, gather, num_ranks * phases, pattern)
    return Schedule.concatenate([adding, gathering])


def segmented_ring_all_reduce_cost(num_ranks: int, num_bytes: float, num_phases: int | None = None) -> Cost:
    """Return (p + 1) (n - 1) messages that carry 2 (n - 1) / n b bytes."""
    phases = phases_of(num_ranks, num_bytes) if num_phases is None else num_phases
    return Cost((phases + 1) * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes / num_ranks)


def phases_of(num_ranks: int, num_bytes: float) -> int:
    """Return Open MPI's number of phases: one for each n MiB, and one for a remainder of more than half of that.

    >>> [phases_of(4, mebibytes * 2.0**20) for mebibytes in (3, 4, 6, 7, 64)]
    [1, 1, 1, 2, 16]
    """
    full, rest = divmod(num_bytes, num_ranks * SEGMENT_BYTES)
    return max(1, int(full) + (rest > num_ranks * SEGMENT_BYTES / 2))
