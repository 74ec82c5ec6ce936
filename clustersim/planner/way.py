"""When the passes of a pipeline are through at the earliest: each as if nobody else were on the links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from clustersim.parallelism.schedules import SCHEDULES, Slot
from clustersim.program.ops import BACKWARD, FORWARD, WEIGHTS


def first_stage_s(
    slots: Sequence[Sequence[Slot]], seconds: Mapping[str, Sequence[float]], sent_s: Sequence[float]
) -> tuple[float, list[float]]:
    """Return when the first stage is through with all its passes, and when those begin that complete each chunk.

    `slots` are the passes of each stage in their order, `seconds` those of a pass forward, backward and for gradients
    of weights through each part [num_parts], and `sent_s` [num_parts] what the message into a part takes.

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
        for slot in slots[stage][done[stage] :]:
            phase, micro, chunk = slot
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
    """Return the passes of each stage in their order [num_stages]."""
    order = SCHEDULES[schedule]
    return tuple(tuple(order(stage, num_stages, num_micro, num_chunks)) for stage in range(num_stages))
