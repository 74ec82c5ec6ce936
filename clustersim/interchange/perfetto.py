"""A run as a Chrome trace, to open in Perfetto (https://ui.perfetto.dev) or `vizviewer`.

Each rank is a process (pid = rank + 1) with the threads compute, communication and waiting. One more
process, the network, has a slice for each bucket while it is in flight on any rank, a counter of buckets in
flight, and the mean utilisation of the busiest links. Where each worker applies its own gradients, a process `model`
has the versions, and each gradient is an asynchronous slice of its worker named by its staleness. Where GPUs or hosts
fail, a process has the whole training on a smaller scale.
Format: "Trace Event Format" (Google, 2016). Asynchronous slices have identifiers of their process (`id2`), otherwise a
viewer does not show them in it; a counter is shown by its own name and that of its value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.interchange.flows import flow_events
from clustersim.interchange.slices import Slice, slices_of
from clustersim.interchange.training import training_events
from clustersim.interchange.versions import version_events
from clustersim.results import Run, Sweep, write_atomically
from clustersim.results.files import to_json

Event = dict[str, Any]

MAX_LINK_COUNTERS = 16
"""Number of links with their own counter."""


def write_perfetto(sweep_or_run: Sweep | Run, path: str | Path) -> Path:
    """Write a trace; a name ending in .gz is compressed. For a sweep it is the largest run with recorded spans.

    Times are microseconds from the run's start, to the nanosecond.
    """
    run = _with_spans(sweep_or_run)
    document = {
        "traceEvents": trace_events(run),
        "displayTimeUnit": "ns",
        "otherData": {"run": f"{run.num_gpus} GPUs", "iteration_s": run.iteration_s},
    }
    return write_atomically(path, to_json(document))


def _with_spans(sweep_or_run: Sweep | Run) -> Run:
    runs = sweep_or_run.ran if isinstance(sweep_or_run, Sweep) else (sweep_or_run,)
    traced = [run for run in runs if len(run.spans)]
    if not traced:
        raise InputError("there is no trace to write: the run recorded no spans", got="no spans")
    return max(traced, key=lambda run: (run.num_gpus, run.samples_per_s))


def trace_events(run: Run) -> list[Event]:
    """Return the run's trace events in time order, a slice before the slices inside it."""
    slices = slices_of(run)
    network, model, training = run.num_gpus + 1, run.num_gpus + 2, run.num_gpus + 3
    others = [*version_events(run, slices, model), *training_events(run, slices, training)]
    names = [*_process_names(run, slices), *_thread_names(slices), *(one for one in others if one["ph"] == "M")]
    timed = [
        *map(_slice_event, slices),
        *flow_events(slices),
        *_in_flight(slices, network),
        *_link_counters(run, slices, network),
        *(one for one in others if one["ph"] != "M"),
    ]
    return names + sorted(timed, key=lambda event: (event["ts"], -event.get("dur", 0.0), event["ph"] == "f"))


def _slice_event(one: Slice) -> Event:
    return {
        "ph": "X",
        "name": one.label,
        "cat": one.kind,
        "pid": one.rank + 1,
        "tid": one.tid,
        "ts": one.start_ns / 1000,
        "dur": (one.end_ns - one.start_ns) / 1000,
        "args": one.args,
    }


def _process_names(run: Run, slices: list[Slice]) -> Iterator[Event]:
    for rank in sorted({one.rank for one in slices}):
        where = f" ({run.rank_names[rank]})" if rank < len(run.rank_names) else ""
        yield _meta("process_name", rank + 1, name=f"rank {rank}{where}")
        yield _meta("process_sort_index", rank + 1, sort_index=rank + 1)
    yield _meta("process_name", run.num_gpus + 1, name="network")
    yield _meta("process_sort_index", run.num_gpus + 1, sort_index=0)


def _thread_names(slices: list[Slice]) -> Iterator[Event]:
    for rank, tid, name in sorted({(one.rank, one.tid, one.thread) for one in slices}):
        yield _meta("thread_name", rank + 1, tid, name=name)
        yield _meta("thread_sort_index", rank + 1, tid, sort_index=tid)


def _meta(kind: str, pid: int, tid: int = 0, **args: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, **({"tid": tid} if tid else {}), "args": args}


def _in_flight(slices: list[Slice], pid: int) -> Iterator[Event]:
    """Yield an asynchronous slice for each interval in which a bucket is in flight on any rank, and a count."""
    changes: dict[int, int] = defaultdict(int)
    for number, parts in enumerate(_flights(slices), 1):
        start, end = parts[0].start_ns, max(part.end_ns for part in parts)
        changes[start] += 1
        changes[end] -= 1
        common = {"cat": "bucket", "name": parts[0].label, "id2": {"local": hex(number)}, "pid": pid}
        args = {
            "iteration": parts[0].iteration,
            "ranks": len({part.rank for part in parts}),
            **({"bytes": parts[0].args["bytes"]} if "bytes" in parts[0].args else {}),
        }
        yield {"ph": "b", **common, "ts": start / 1000, "args": args}
        yield {"ph": "e", **common, "ts": end / 1000}
    flying = 0
    for time, change in sorted(changes.items()):
        flying += change
        yield {"ph": "C", "name": "buckets", "pid": pid, "ts": time / 1000, "args": {"in flight": flying}}


def _flights(slices: list[Slice]) -> Iterator[list[Slice]]:
    """Yield the communication of each bucket and iteration, split where no rank communicates for a while."""
    buckets: dict[tuple[int, str], list[Slice]] = defaultdict(list)
    for one in slices:
        if one.kind == "communication":
            buckets[one.iteration, one.label].append(one)
    for parts in buckets.values():
        together: list[Slice] = []
        end_ns = 0
        for one in sorted(parts, key=lambda part: part.start_ns):
            if together and one.start_ns > end_ns:
                yield together
                together = []
            together.append(one)
            end_ns = max(end_ns, one.end_ns)
        yield together


def _link_counters(run: Run, slices: list[Slice], pid: int) -> Iterator[Event]:
    """Yield the mean utilisation of the busiest links, constant from the first slice to the last."""
    start, end = min(one.start_ns for one in slices), max(one.end_ns for one in slices)
    for link in sorted(run.links, key=lambda link: -link.utilisation)[:MAX_LINK_COUNTERS]:
        common = {"ph": "C", "name": f"mean utilisation of {link.name}", "pid": pid}
        yield {**common, "ts": start / 1000, "args": {"%": 100 * link.utilisation}}
        yield {**common, "ts": end / 1000, "args": {"%": 0}}
