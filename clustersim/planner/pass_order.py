"""Pass orders of pipeline schedules: earliest finish times without contention, and counts of passes per stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clustersim.parallelism.schedules import SCHEDULES, in_flight_counts
from clustersim.parallelism.slot import Slot
from clustersim.program.ops import BACKWARD, FORWARD, WEIGHTS

_ROWS = {FORWARD: 0, BACKWARD: 1, WEIGHTS: 2}


def first_stage_s(
    slots: Sequence[Sequence[Slot]], seconds: Mapping[str, Sequence[float]], sent_s: Sequence[float]
) -> tuple[float, list[float]]:
    """Return the end of the first stage's passes, and the start of the last backward pass of each of its chunks.

    `slots` are the passes of each stage in order. `seconds` are the times of a pass through each part [num_parts]:
    forward, backward, weight gradients. `sent_s` [num_parts] is the time of the message into a part.

    >>> order = pass_order("1f1b", 2, 2, 1)
    >>> first_stage_s(order, {"forward": [1.0, 1.0], "backward": [2.0, 2.0]}, [0.0, 0.5])
    (10.0, [8.0])
    """
    num_stages, num_parts = len(slots), len(sent_s)
    there: dict[tuple[str, int, int], float] = {}
    now_s, done = [0.0] * num_stages, [0] * num_stages
    chunk_begins_s = [0.0] * (num_parts // num_stages)
    ready = list(range(num_stages))
    while ready:
        stage = ready.pop()
        while done[stage] < len(slots[stage]):
            slot = slots[stage][done[stage]]
            phase, micro, chunk = slot.phase, slot.micro_batch, slot.chunk
            part = chunk * num_stages + stage
            needs = (phase, part, micro)
            is_given = phase == WEIGHTS or (phase == FORWARD and not part)
            if not is_given and needs not in there:
                break
            begin_s = max(now_s[stage], 0.0 if is_given else there[needs])
            end_s = now_s[stage] = begin_s + seconds[phase][part]
            done[stage] += 1
            if not stage and phase != FORWARD:
                chunk_begins_s[chunk] = begin_s
            if phase == FORWARD:
                last = part == num_parts - 1
                reader = (BACKWARD, part, micro) if last else (FORWARD, part + 1, micro)
                there[reader] = end_s if last else end_s + sent_s[part + 1]
            elif phase == BACKWARD and part:
                reader = (BACKWARD, part - 1, micro)
                there[reader] = end_s + sent_s[part]
            else:
                continue
            ready.append(reader[1] % num_stages)
    assert all(count == len(each) for count, each in zip(done, slots, strict=True))
    return now_s[0], chunk_begins_s


@lru_cache(maxsize=1024)
def pass_order(schedule: str, num_stages: int, num_micro: int, num_chunks: int) -> tuple[tuple[Slot, ...], ...]:
    """Return the passes of each stage in order [num_stages]."""
    order = SCHEDULES[schedule]
    return tuple(tuple(order(stage, num_stages, num_micro, num_chunks)) for stage in range(num_stages))


@dataclass(frozen=True, eq=False)
class StagePasses:
    """Counts of one stage's passes [3, num_chunks]: forward, backward, weight gradients.

    `before` [num_chunks] are the counts before the pass that completes the gradients of a chunk. `kept` [num,
    num_chunks] is the number of micro-batches that each chunk keeps during a backward pass through chunk `backward`
    [num]; each pair occurs once.
    """

    kept: np.ndarray
    backward: np.ndarray
    before: tuple[np.ndarray, ...]
    every: np.ndarray


@lru_cache(maxsize=4096)
def stage_passes(schedule: str, num_stages: int, num_micro: int, num_chunks: int) -> tuple[StagePasses, ...]:
    """Return the pass counts of each stage [num_stages]; raise InputError if there is no such schedule.

    >>> stage_passes("1f1b", 4, 8, 1)[0].kept.tolist(), stage_passes("zero-bubble", 4, 8, 1)[3].every.tolist()
    ([[1.0], [2.0], [3.0], [4.0]], [[8.0], [8.0], [8.0]])
    """
    return tuple(_stage_passes(slots, num_chunks) for slots in pass_order(schedule, num_stages, num_micro, num_chunks))


def _stage_passes(slots: Sequence[Slot], num_chunks: int) -> StagePasses:
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
    return StagePasses(held[:, 1:], held[:, 0].astype(np.int64), before, counts(len(slots)))
