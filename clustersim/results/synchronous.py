"""What a synchronous job's timesheet says: where the time went, and the spans of one iteration."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from clustersim.results.trace import Spans, Timesheet


def parts(times: Timesheet) -> dict[str, np.ndarray]:
    """Return the parts of each iteration in seconds [num_ranks, num_iterations].

    After backward a worker is idle until its buckets are back, one bucket after the other. While it is in
    a collective that a slower rank has not entered it is waiting; the rest of the idle time is exposed
    communication. The three parts sum to the iteration.
    """
    idle = times.exchanged_s - times.computed_s
    waiting = sum((end - start for start, end in _waits(times)), np.zeros_like(idle))
    return {
        "compute": (times.end_s - times.begin_s) - idle,
        "communication_exposed": idle - waiting,
        "waiting": waiting,
    }


def _waits(times: Timesheet) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each bucket from when to when a worker waited for slower ranks; empty stretches where it did not."""
    stretches = []
    free_s = times.computed_s
    for bucket in range(times.enter_s.shape[2]):
        start = np.fmax(free_s, times.enter_s[:, :, bucket])
        end = np.minimum(times.left_s[:, :, bucket], times.awaited_s[:, :, bucket])
        stretches.append((start, np.fmax(start, end)))  # where nobody was awaited, `end` is NaN
        free_s = np.fmax(free_s, times.back_s[:, :, bucket])
    return stretches


def iteration_spans(
    times: Timesheet,
    iteration: int,
    layers: Sequence[tuple[str, float]],
    buckets: Sequence[str],
    detailed: Collection[int],
) -> Spans:
    """Return the spans of one iteration, relative to when its first rank began.

    `layers` are names and backward seconds in the order of backward, which fill each rank's backward in
    proportion. Only ranks in `detailed` get a span for each layer.
    """
    spans = Spans()
    origin = float(times.begin_s[:, iteration].min())
    slowest = times.enter_s[:, iteration, :].argmax(axis=0)
    waits = _waits(times)
    total_s = sum(seconds for _, seconds in layers)
    for rank in range(len(times.begin_s)):
        begin, forward, computed, exchanged, end = (
            float(column[rank, iteration]) - origin
            for column in (times.begin_s, times.forward_s, times.computed_s, times.exchanged_s, times.end_s)
        )
        _add(spans, "forward", rank, iteration, begin, forward)
        if rank in detailed:
            time = forward
            for name, seconds in layers:
                share = seconds / total_s * (computed - forward)
                _add(spans, "backward", rank, iteration, time, time + share, name)
                time += share
        else:
            _add(spans, "backward", rank, iteration, forward, computed)
        exposed_from = computed
        for number, name in enumerate(buckets):
            where = rank, iteration, number
            ready, back = float(times.ready_s[where]) - origin, float(times.back_s[where]) - origin
            _add(spans, "communication", rank, iteration, ready, back, name)
            start, stop = (float(edge[rank, iteration]) - origin for edge in waits[number])
            if stop > start:
                cause = f"waited for rank {slowest[number]} to enter the exchange of {name}"
                _add(spans, "exposed", rank, iteration, exposed_from, start, name)
                _add(spans, "waiting", rank, iteration, start, stop, name, cause)
                exposed_from = stop
            _add(spans, "exposed", rank, iteration, exposed_from, max(exposed_from, back), name)
            exposed_from = max(exposed_from, back)
        _add(spans, "update", rank, iteration, exchanged, end)
    return spans


def _add(
    spans: Spans, kind: str, rank: int, iteration: int, start_s: float, end_s: float, name: str = "", cause: str = ""
) -> None:
    if end_s > start_s:
        spans.add(kind, rank, iteration, start_s, end_s, name, cause)
