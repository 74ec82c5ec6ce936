"""Flow arrows of a trace: from the layer that completes a bucket, through the bucket, to the update that needs it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from clustersim.interchange.slices import Slice


def flow_events(slices: list[Slice]) -> Iterator[dict[str, Any]]:
    """Yield a flow for each bucket of each rank: the last backward slice before it, the bucket, the first update after
    it.

    A bucket without a backward slice before it, or an update after it, gets a shorter arrow; without both
    it gets none.
    """
    number = 0
    for group in _by_rank_and_iteration(slices).values():
        backward = sorted((one for one in group if one.kind == "backward"), key=lambda one: one.end_ns)
        updates = sorted((one for one in group if one.kind == "update"), key=lambda one: one.start_ns)
        ends, starts = [one.end_ns for one in backward], [one.start_ns for one in updates]
        for bucket in (one for one in group if one.kind == "communication"):
            before, after = bisect_right(ends, bucket.start_ns) - 1, bisect_left(starts, bucket.end_ns)
            chain = [(backward[before], max(backward[before].start_ns, ends[before] - 1))] if before >= 0 else []
            chain.append((bucket, bucket.start_ns))
            chain += [(updates[after], starts[after])] if after < len(updates) else []
            if len(chain) > 1:
                number += 1
                yield from _chain(chain, number)


def _by_rank_and_iteration(slices: list[Slice]) -> dict[tuple[int, int], list[Slice]]:
    groups: dict[tuple[int, int], list[Slice]] = defaultdict(list)
    for one in slices:
        groups[one.rank, one.iteration].append(one)
    return groups


def _chain(chain: list[tuple[Slice, int]], number: int) -> Iterator[dict[str, Any]]:
    """Yield the start, the steps and the end of one flow, each at a time inside its slice."""
    for place, (one, time_ns) in enumerate(chain):
        phase = "s" if place == 0 else "f" if place == len(chain) - 1 else "t"
        event = {"ph": phase, "id": number, "cat": "gradient", "name": "gradient", "pid": one.rank + 1, "tid": one.tid}
        yield {**event, "ts": time_ns / 1000, **({"bp": "e"} if phase == "f" else {})}
