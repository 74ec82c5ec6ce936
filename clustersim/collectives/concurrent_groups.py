"""Schedules of independent groups, run at the same time as one schedule."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from clustersim.collectives.schedule import Relays, Schedule, Step


def concurrent_groups(parts: Sequence[Schedule]) -> Schedule | None:
    """Return the schedule in which each group runs its own schedule, all at the same time.

    Ranks of a group come after those of the groups before it, and chunks are those of a group's own buffer. No rank
    waits for a rank of another group, so each does what it would do alone. None if groups differ in the number of steps
    or chunks, or in their relays: those of the first group apply to all.

    >>> from clustersim.collectives.ring import ring_all_gather
    >>> [t.dst for t in concurrent_groups([ring_all_gather(2, 8.0)] * 2).transfers()]
    [1, 0, 3, 2]
    """
    if len({(part.num_steps, part.granularity, _shape(part.relays), part.wait_s) for part in parts}) > 1:
        return None
    first, first_ranks = parts[0], np.cumsum([0, *(part.num_ranks for part in parts)]).tolist()

    def step(number: int) -> Step:
        return _concatenated([part.step(number) for part in parts], first_ranks)

    def pattern(number: int) -> Hashable:
        return tuple(part.pattern(number) for part in parts)

    def finer(number: int) -> Step:
        return _concatenated([part.ranges(number) for part in parts], first_ranks)

    shape = first_ranks[-1], first.num_steps, step, first.granularity
    return Schedule(*shape, pattern, finer, first.relays, wait_s=first.wait_s)


def _shape(relays: Relays | None) -> Hashable:
    return None if relays is None else tuple(column.tobytes() for column in relays)


def _concatenated(steps: Sequence[Step], first_ranks: Sequence[int]) -> Step:
    """Return the messages of all groups in a step, group after group."""
    moved = [
        columns._replace(src=columns.src + first, dst=columns.dst + first)
        for columns, first in zip(steps, first_ranks, strict=False)
    ]
    return Step(*map(np.concatenate, zip(*moved, strict=True)))
