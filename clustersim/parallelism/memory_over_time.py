"""Memory of a rank over an iteration: activations are added in forward passes, and freed in backward passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.program.ops import BACKWARD, FORWARD, WEIGHTS


@dataclass(frozen=True)
class StageMemory:
    """The bytes of a stage: per micro-batch in flight of each chunk, recomputed in its backward pass, and of all else.

    `constant` are weights, gradients, state, and everything else that is always there.
    """

    kept: tuple[float, ...]
    recomputed: tuple[float, ...]
    constant: float


class TimedPass(NamedTuple):
    """A simulated pass of a micro-batch through a chunk: its phase (forward, backward or weights) and its time.

    Passes of earlier iterations have micro-batch numbers below 0.
    """

    phase: str
    micro_batch: int
    begin_s: float
    end_s: float


def memory_over_time(held: StageMemory, passes: Sequence[TimedPass]) -> list[tuple[float, float]] | None:
    """Return a rank's memory as (time, bytes) steps, for its passes of an iteration in their order.

    A micro-batch counts from the beginning of its forward pass to the end of the last pass that needs its activations.
    None if the passes are not those of a whole iteration.

    >>> passes = [TimedPass("forward", 0, 0, 1), TimedPass("backward", 0, 1, 3)]
    >>> memory_over_time(StageMemory((4.0,), (1.0,), 2.0), passes)
    [(0, 6.0), (1, 7.0), (3, 2.0)]
    """
    last_phase = WEIGHTS if any(each.phase == WEIGHTS for each in passes) else BACKWARD
    num_chunks, seen = len(held.kept), Counter[tuple[str, int]]()
    now = held.constant + held.kept[0] * max(0, -min((each.micro_batch for each in passes), default=0))
    at_first, steps = now, []
    for each in passes:
        nth = seen[each.phase, each.micro_batch]
        seen[each.phase, each.micro_batch] += 1
        if nth >= num_chunks:
            return None
        chunk = nth if each.phase == FORWARD else num_chunks - 1 - nth
        now += held.kept[chunk] if each.phase == FORWARD else 0.0
        steps.append((each.begin_s, now + (held.recomputed[chunk] if each.phase == BACKWARD else 0.0)))
        now -= held.kept[chunk] if each.phase == last_phase else 0.0
        steps.append((each.end_s, now))
    if not steps or abs(now - at_first) > 1e-9 * at_first:
        return None
    return list(dict(steps).items())  # of several steps at one time the last one counts
