"""What a schedule comes to, counted once for all layouts that have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clustersim.parallelism.schedules import Slot, in_flight_counts
from clustersim.planner.way import pass_order
from clustersim.program.ops import BACKWARD, FORWARD, WEIGHTS

_ROWS = {FORWARD: 0, BACKWARD: 1, WEIGHTS: 2}


@dataclass(frozen=True, eq=False)
class StageShape:
    """What one stage does, as counts [3, num_chunks] of passes forward, backward and for gradients of weights.

    `before` [num_chunks] are those before the pass in which the gradients of a chunk become complete. `kept` [num,
    num_chunks] are how many micro-batches each chunk keeps during a pass backward through chunk `backward` [num], each
    pair once.
    """

    kept: np.ndarray
    backward: np.ndarray
    before: tuple[np.ndarray, ...]
    every: np.ndarray


@lru_cache(maxsize=4096)
def stage_shapes(schedule: str, num_stages: int, num_micro: int, num_chunks: int) -> tuple[StageShape, ...]:
    """Return what each stage does in an iteration [num_stages]; raise InputError where there is no such schedule.

    >>> stage_shapes("1f1b", 4, 8, 1)[0].kept.tolist(), stage_shapes("zero-bubble", 4, 8, 1)[3].every.tolist()
    ([[1.0], [2.0], [3.0], [4.0]], [[8.0], [8.0], [8.0]])
    """
    return tuple(_shape(slots, num_chunks) for slots in pass_order(schedule, num_stages, num_micro, num_chunks))


def _shape(slots: Sequence[Slot], num_chunks: int) -> StageShape:
    rows = np.array([_ROWS[slot.phase] for slot in slots])
    chunks = np.array([slot.chunk for slot in slots])

    def counts(end: int) -> np.ndarray:
        counted = np.zeros((3, num_chunks))
        np.add.at(counted, (rows[:end], chunks[:end]), 1)
        return counted

    ends = [int(np.flatnonzero((rows > 0) & (chunks == chunk))[-1]) for chunk in range(num_chunks)]
    before = tuple(counts(end) for end in ends)
    is_backward = rows == _ROWS[BACKWARD]
    held = np.unique(np.column_stack([chunks, in_flight_counts(slots)])[is_backward], axis=0)
    return StageShape(held[:, 1:], held[:, 0].astype(np.int64), before, counts(len(slots)))
