"""What a timesheet says: where the time went, and the spans of an iteration or a stretch of time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from clustersim.results.trace import Spans, Timesheet


def parts(times: Timesheet) -> dict[str, np.ndarray]:
    """Return the parts of each iteration in seconds [num_ranks, num_iterations].

    After backward a worker is idle until its buckets are back, one bucket after the other. While it is in
    an exchange that a rank it needs has not entered it is waiting; the rest of the idle time is exposed
    communication. `input` is the time before forward in which its samples are not there. Where a model is laid over
    several workers, a `bubble` is time in which other stages compute what it needs, and `offload` what it waits for its
    host, which has part of what it trains. What it computes takes `slowed` longer for collectives that hold
    multiprocessors beside it. The parts sum to the iteration.
    """
    input_s = np.fmax(times.begin_s, times.fetched_s) - times.begin_s
    idle = times.exchanged_s - times.computed_s
    waiting = sum((end - start for start, end in waits(times)), np.zeros_like(idle))
    inside = times.bubble_s + times.called_waiting_s + times.called_s + times.offload_s
    split = {
        "compute": (times.end_s - times.begin_s) - idle - input_s - inside - times.slowed_s,
        "communication_exposed": idle - waiting + times.called_s,
        "waiting": waiting + times.called_waiting_s,
        "input": input_s,
    }
    others = {"slowed": times.slowed_s, "bubble": times.bubble_s, "offload": times.offload_s}
    return split | {name: seconds for name, seconds in others.items() if seconds.any()}


def waits(times: Timesheet) -> list[tuple[np.ndarray, np.ndarray]]:
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
    lengths = waits(times)
    for rank in range(len(times.begin_s)):
        own_layers = layers if rank in detailed else ()
        _cycle_spans(spans, times, lengths, (rank, iteration), iteration, origin, own_layers, buckets)
    return spans


def stretch_spans(
    times: Timesheet,
    counts: np.ndarray,
    seconds: float,
    layers: Sequence[tuple[str, float]],
    buckets: Sequence[str],
    detailed: Collection[int],
) -> Spans:
    """Return the spans of the last iterations that count [num_ranks, num_iterations], of workers out of step.

    Those are shown that reach into the last `seconds` before the last one began. All of them bear the number 0, since
    a worker's iteration 7 may be another's 9.
    """
    spans = Spans()
    last_s = float(times.begin_s[counts].max())
    shown = counts & (times.end_s > last_s - seconds)
    origin = float(times.begin_s[shown].min())
    lengths = waits(times)
    for rank, iteration in np.argwhere(shown).tolist():
        own_layers = layers if rank in detailed else ()
        _cycle_spans(spans, times, lengths, (rank, iteration), 0, origin, own_layers, buckets)
    return spans


def _cycle_spans(
    spans: Spans,
    times: Timesheet,
    lengths: Sequence[tuple[np.ndarray, np.ndarray]],
    where: tuple[int, int],
    number: int,
    origin: float,
    layers: Sequence[tuple[str, float]],
    buckets: Sequence[str],
) -> None:
    """Add the spans of one rank's iteration, called `number`; `lengths` are when it waited, bucket by bucket."""
    rank = where[0]
    begin, forward, computed = (
        float(column[where]) - origin for column in (times.begin_s, times.forward_s, times.computed_s)
    )
    fetched = max(begin, float(np.nan_to_num(times.fetched_s[where] - origin, nan=begin)))
    _add(spans, "input", rank, number, begin, fetched, cause="its samples were not read and decoded yet")
    _add(spans, "forward", rank, number, fetched, forward)
    _add_backward(spans, rank, number, forward, computed, layers)
    _add_exchange(spans, times, lengths, where, number, origin, buckets)


def add_exchange(spans: Spans, times: Timesheet, where: tuple[int, int], origin: float, buckets: Sequence[str]) -> None:
    """Add what follows the backward pass of a rank's iteration: the exchange of its buckets, and the update."""
    _add_exchange(spans, times, waits(times), where, 0, origin, buckets)


def _add_exchange(
    spans: Spans,
    times: Timesheet,
    lengths: Sequence[tuple[np.ndarray, np.ndarray]],
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
        start, stop = (float(edge[where]) - origin for edge in lengths[bucket])
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
    """Add backward as one span, or as one for each layer."""
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
