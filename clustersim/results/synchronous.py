"""Evaluation of a timesheet: the time breakdown, and the spans of an iteration or of a time window."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from clustersim.results.trace import Spans, Timesheet


def parts(times: Timesheet) -> dict[str, np.ndarray]:
    """Return the parts of each iteration in seconds [num_ranks, num_iterations].

    After the backward pass a worker is idle until its buckets are back, one bucket after the other. It is waiting while
    it is in an exchange that a rank it needs has not entered; the rest of the idle time is exposed communication.
    `input` is the time before the forward pass in which its samples are not ready. In a layout over several workers, a
    `bubble` is time in which it waits for other stages' compute, and `offload` is time in which it waits for its host,
    which holds part of its state. `slowed` is the additional compute time caused by collectives that occupy
    multiprocessors, and `host` is time in which the GPU has no kernel to run and no message to wait for, because its
    host has not issued the next kernel yet. The parts sum to the iteration.
    """
    input_s = np.fmax(times.begin_s, times.fetched_s) - times.begin_s
    idle = times.exchanged_s - times.computed_s
    waiting = sum((end - start for start, end in waits(times)), np.zeros_like(idle))
    inside = times.bubble_s + times.called_waiting_s + times.called_s + times.offload_s
    split = {
        "compute": (times.end_s - times.begin_s) - idle - input_s - inside - times.slowed_s - times.host_s,
        "communication_exposed": idle - waiting + times.called_s,
        "waiting": waiting + times.called_waiting_s,
        "input": input_s,
    }
    others = {"slowed": times.slowed_s, "bubble": times.bubble_s, "offload": times.offload_s, "host": times.host_s}
    return split | {name: seconds for name, seconds in others.items() if seconds.any()}


def waits(times: Timesheet) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return start and end of the waiting for slower ranks, for each bucket; equal times where there was none."""
    intervals = []
    free_s = times.computed_s
    for bucket in range(times.enter_s.shape[2]):
        start = np.fmax(free_s, times.enter_s[:, :, bucket])
        end = np.minimum(times.left_s[:, :, bucket], times.awaited_s[:, :, bucket])
        intervals.append((start, np.fmax(start, end)))  # `end` is NaN where no rank was awaited
        free_s = np.fmax(free_s, times.back_s[:, :, bucket])
    return intervals


def iteration_spans(
    times: Timesheet,
    iteration: int,
    layers: Sequence[tuple[str, float]],
    buckets: Sequence[str],
    detailed: Collection[int],
) -> Spans:
    """Return the spans of one iteration, relative to the start of its first rank.

    `layers` are names and backward seconds in the order of the backward pass; each rank's backward pass is divided in
    proportion to them. Only ranks in `detailed` get one span per layer.
    """
    spans = Spans()
    origin = float(times.begin_s[:, iteration].min())
    waiting = waits(times)
    for rank in range(len(times.begin_s)):
        own_layers = layers if rank in detailed else ()
        _cycle_spans(spans, times, waiting, (rank, iteration), iteration, origin, own_layers, buckets)
    return spans


def window_spans(
    times: Timesheet,
    counts: np.ndarray,
    seconds: float,
    layers: Sequence[tuple[str, float]],
    buckets: Sequence[str],
    detailed: Collection[int],
) -> Spans:
    """Return the spans of the last iterations of asynchronous workers, within `counts` [num_ranks, num_iterations].

    Iterations that end in the last `seconds` before the start of the last one are included. All have the number 0,
    since iteration 7 of a worker may coincide with iteration 9 of another.
    """
    spans = Spans()
    last_s = float(times.begin_s[counts].max())
    shown = counts & (times.end_s > last_s - seconds)
    origin = float(times.begin_s[shown].min())
    waiting = waits(times)
    for rank, iteration in np.argwhere(shown).tolist():
        own_layers = layers if rank in detailed else ()
        _cycle_spans(spans, times, waiting, (rank, iteration), 0, origin, own_layers, buckets)
    return spans


def _cycle_spans(
    spans: Spans,
    times: Timesheet,
    waiting: Sequence[tuple[np.ndarray, np.ndarray]],
    where: tuple[int, int],
    number: int,
    origin: float,
    layers: Sequence[tuple[str, float]],
    buckets: Sequence[str],
) -> None:
    """Add the spans of one rank's iteration with this number; `waiting` are its waiting intervals by bucket."""
    rank = where[0]
    begin, forward, computed = (
        float(column[where]) - origin for column in (times.begin_s, times.forward_s, times.computed_s)
    )
    fetched = max(begin, float(np.nan_to_num(times.fetched_s[where] - origin, nan=begin)))
    _add(spans, "input", rank, number, begin, fetched, cause="its samples were not read and decoded yet")
    _add(spans, "forward", rank, number, fetched, forward)
    _add_backward(spans, rank, number, forward, computed, layers)
    _add_exchange(spans, times, waiting, where, number, origin, buckets)


def add_exchange(spans: Spans, times: Timesheet, where: tuple[int, int], origin: float, buckets: Sequence[str]) -> None:
    """Add the spans after the backward pass of a rank's iteration: the exchange of its buckets, and the update."""
    _add_exchange(spans, times, waits(times), where, 0, origin, buckets)


def _add_exchange(
    spans: Spans,
    times: Timesheet,
    waiting: Sequence[tuple[np.ndarray, np.ndarray]],
    where: tuple[int, int],
    number: int,
    origin: float,
    buckets: Sequence[str],
) -> None:
    rank = where[0]
    computed, exchanged, end = (
        float(column[where]) - origin for column in (times.computed_s, times.exchanged_s, times.end_s)
    )
    exposed_from = computed
    for bucket, name in enumerate(buckets):
        if np.isnan(times.ready_s[(*where, bucket)]):
            continue  # nothing was exchanged in this iteration
        ready, back = (float(column[(*where, bucket)]) - origin for column in (times.ready_s, times.back_s))
        _add(spans, "communication", rank, number, ready, back, name)
        start, stop = (float(edge[where]) - origin for edge in waiting[bucket])
        if stop > start:
            cause = f"waited for rank {times.awaited_rank[(*where, bucket)]:.0f} to enter the exchange of {name}"
            _add(spans, "exposed", rank, number, exposed_from, start, name)
            _add(spans, "waiting", rank, number, start, stop, name, cause)
            exposed_from = stop
        _add(spans, "exposed", rank, number, exposed_from, max(exposed_from, back), name)
        exposed_from = max(exposed_from, back)
    _add(spans, "update", rank, number, exchanged, end)


def _add_backward(
    spans: Spans, rank: int, number: int, start_s: float, end_s: float, layers: Sequence[tuple[str, float]]
) -> None:
    """Add the backward pass as one span, or as one span per layer."""
    total_s = sum(seconds for _, seconds in layers)
    if not total_s:
        _add(spans, "backward", rank, number, start_s, end_s)
        return
    time_s = start_s
    for name, seconds in layers:
        share_s = seconds / total_s * (end_s - start_s)
        _add(spans, "backward", rank, number, time_s, time_s + share_s, name)
        time_s += share_s


def _add(
    spans: Spans, kind: str, rank: int, iteration: int, start_s: float, end_s: float, name: str = "", cause: str = ""
) -> None:
    if end_s > start_s:
        spans.add(kind, rank, iteration, start_s, end_s, name, cause)
