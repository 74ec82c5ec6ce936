"""Model versions in a trace: a slice and a counter for each, gradients as asynchronous slices, and arrows.

An arrow leads from the version with which a worker began, through its forward pass, to the version that its gradient
produced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from clustersim.interchange.slices import Slice
from clustersim.results import Run
from clustersim.results.read_times import read_times

Event = dict[str, Any]

_TID = 1
_FIRST_FLOW = 1_000_000_000
"""Flow numbers from here on belong to versions, smaller ones to buckets."""

_NEAR_NS = 2
"""Maximum distance between the starts of a forward slice and of its iteration: both are rounded."""


@dataclass(frozen=True)
class _Gradient:
    row: int
    worker: int
    read_ns: int
    met_ns: int


@dataclass(frozen=True)
class _Versions:
    """Versions in effect during the trace, each until the next: numbers and times, and the end of the trace."""

    number: list[int]
    start_ns: list[int]
    end_ns: int

    def at(self, time_ns: int) -> int:
        """Return the index of the version in effect at a time; the first one for earlier times."""
        return max(0, bisect_right(self.start_ns, time_ns) - 1)

    def until(self, place: int) -> int:
        """Return when the version at an index is replaced by the next."""
        return self.start_ns[place + 1] if place + 1 < len(self.start_ns) else self.end_ns


def version_events(run: Run, slices: list[Slice], pid: int) -> Iterator[Event]:
    """Yield the trace events of the update log within the time of the slices; `pid` is the model's process."""
    origin_s = _origin_s(run)
    if origin_s is None or not len(run.updates):
        return
    end_ns = max(one.end_ns for one in slices)
    times_ns = np.rint((np.asarray(run.updates.time_s) - origin_s) * 1e9).astype(np.int64)
    versions = _in_force(run, times_ns, end_ns)
    if not versions.number:
        return
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "model"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": 0}}
    yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": _TID, "args": {"name": "versions"}}
    yield from _version_slices(versions, pid)
    gradients = _gradients(run, times_ns, origin_s, end_ns)
    yield from _staleness(run, gradients)
    yield from _arrows(run, gradients, versions, slices, pid)


def _origin_s(run: Run) -> float | None:
    """Return the simulated time at which the trace begins: the last start is common to spans and iterations."""
    forward = [start for start, kind in zip(run.spans.start_s, run.spans.kind, strict=True) if kind == "forward"]
    if not forward or not len(run.cycles):
        return None
    return max(run.cycles.begin_s) - max(forward) + min(run.spans.start_s)


def _in_force(run: Run, times_ns: np.ndarray, end_ns: int) -> _Versions:
    """Return the versions within the trace; the last one of those made at the same nanosecond."""
    accepted = run.updates.is_accepted & (times_ns < end_ns)
    written = np.asarray(run.updates.version_written)[accepted]
    order = np.lexsort((written, np.maximum(times_ns[accepted], 0)))
    latest: dict[int, int] = {}
    for place in order.tolist():
        time_ns = int(max(0, times_ns[accepted][place]))
        latest[time_ns] = max(latest.get(time_ns, 0), int(written[place]))
    before = np.asarray(run.updates.version_written)[run.updates.is_accepted]
    if len(before) and 0 not in latest:
        latest = {0: int(before.min()) - 1, **latest}
    return _Versions(list(latest.values()), list(latest), end_ns)


def _version_slices(versions: _Versions, pid: int) -> Iterator[Event]:
    for place, (number, start_ns) in enumerate(zip(versions.number, versions.start_ns, strict=True)):
        until_ns = versions.until(place)
        common = {"pid": pid, "ts": start_ns / 1000}
        yield {
            **common, "ph": "X", "tid": _TID, "name": f"W_{number}", "cat": "version",
            "dur": (until_ns - start_ns) / 1000, "args": {"version": number},
        }  # fmt: skip
        yield {**common, "ph": "C", "name": "model", "args": {"version": number}}


def _gradients(run: Run, times_ns: np.ndarray, origin_s: float, end_ns: int) -> list[_Gradient]:
    """Return the gradients that began and reached the model within the trace."""
    read_s = read_times(run.updates, run.cycles, run.stashes_weights)
    read_ns = np.rint((np.where(np.isnan(read_s), -np.inf, read_s) - origin_s) * 1e9)
    rows = np.flatnonzero((read_ns >= 0) & (times_ns < end_ns))
    return [_Gradient(row, run.updates.worker[row], int(read_ns[row]), int(times_ns[row])) for row in rows.tolist()]


def _staleness(run: Run, gradients: list[_Gradient]) -> Iterator[Event]:
    """Yield an asynchronous slice in its worker's process from the start of a gradient until it reaches the model."""
    log, staleness = run.updates, run.updates.staleness
    for number, one in enumerate(gradients, 1):
        stale, accepted = int(staleness[one.row]), bool(log.accepted[one.row])
        common = {
            "cat": "staleness", "id2": {"local": hex(number)}, "pid": one.worker + 1,
            "name": f"staleness {stale}" if accepted else f"dropped, staleness {stale}",
        }  # fmt: skip
        args = {
            "version_read": log.version_read[one.row],
            "version_written": log.version_written[one.row] if accepted else None,
            "staleness": stale,
            "learning_rate": log.learning_rate[one.row] if accepted else 0.0,
        }
        yield {**common, "ph": "b", "ts": one.read_ns / 1000, "args": args}
        yield {**common, "ph": "e", "ts": one.met_ns / 1000}


def _arrows(
    run: Run, gradients: list[_Gradient], versions: _Versions, slices: list[Slice], pid: int
) -> Iterator[Event]:
    """Yield a flow for each applied gradient; a flow from a version older than the trace starts in the worker."""
    forward: dict[int, list[Slice]] = {}
    for one in slices:
        if one.kind == "forward":
            forward.setdefault(one.rank, []).append(one)
    places = {number: place for place, number in enumerate(versions.number)}
    log = run.updates
    for gradient in gradients:
        if not log.accepted[gradient.row]:
            continue
        chain: list[tuple[int, int, int]] = []
        place = places.get(log.version_read[gradient.row])
        if place is not None and versions.start_ns[place] <= gradient.read_ns:
            chain.append((pid, _TID, min(gradient.read_ns, versions.until(place) - 1)))
        chain += [
            (one.rank + 1, one.tid, one.start_ns)
            for one in forward.get(gradient.worker, [])
            if abs(one.start_ns - gradient.read_ns) <= _NEAR_NS
        ][:1]
        made = versions.at(gradient.met_ns)
        chain.append((pid, _TID, versions.start_ns[made]))
        if len(chain) > 1:
            yield from _chain(chain, _FIRST_FLOW + gradient.row)


def _chain(chain: list[tuple[int, int, int]], number: int) -> Iterator[Event]:
    for place, (pid, tid, time_ns) in enumerate(chain):
        phase = "s" if place == 0 else "f" if place == len(chain) - 1 else "t"
        event = {"ph": phase, "id": number, "cat": "version", "name": "version", "pid": pid, "tid": tid}
        yield {**event, "ts": time_ns / 1000, **({"bp": "e"} if phase == "f" else {})}
