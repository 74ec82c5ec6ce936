"""Spans as slices on threads, in whole nanoseconds; slices on one thread nest."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from clustersim.results import Run

THREADS = {
    "forward": "compute",
    "backward": "compute",
    "weights": "compute",
    "recompute": "compute",
    "update": "compute",
    "input": "compute",
    "bubble": "waiting",
    "offload": "waiting",
    "recovery": "waiting",
    "waiting": "waiting",
    "exposed": "waiting",
    "communication": "communication",
    "copy": "copy",
    "host": "host",
}
"""The thread of each kind of span; other kinds are on `other`."""

_OF_LAYERS = ("forward", "backward", "weights", "recompute")

_FIRST_TID = {"compute": 1, "communication": 100, "copy": 200, "waiting": 300, "other": 400, "host": 500}


@dataclass(frozen=True)
class Slice:
    """One span of one rank on one thread, in nanoseconds from the run's start."""

    rank: int
    kind: str
    label: str
    iteration: int
    start_ns: int
    end_ns: int
    thread: str
    tid: int
    args: dict[str, Any]


def slices_of(run: Run) -> list[Slice]:
    """Return the run's spans as slices, sorted by rank, thread and time.

    A span that overlaps its neighbour without lying inside it moves to a second thread of the same name
    (`communication 2`): slices of one thread must nest.
    """
    start_s = min(run.spans.start_s)
    sizes = {name: num_bytes for name, num_bytes, _ in run.buckets}
    by_thread: dict[tuple[int, str], list[Slice]] = defaultdict(list)
    for kind, rank, iteration, begin_s, end_s, name, cause in run.spans.rows():
        args = {
            "iteration": iteration,
            "phase": kind,
            **_named(kind, name, sizes),
            **({"cause": cause} if cause else {}),
        }
        thread = THREADS.get(kind, "other")
        begin_ns, end_ns = round((begin_s - start_s) * 1e9), round((end_s - start_s) * 1e9)
        one = Slice(rank, kind, _label(kind, name), iteration, begin_ns, end_ns, thread, _FIRST_TID[thread], args)
        by_thread[rank, thread].append(one)
    return [one for key in sorted(by_thread) for one in _on_threads(by_thread[key])]


def _label(kind: str, name: str) -> str:
    if not name:
        return {"exposed": "exposed communication"}.get(kind, kind)
    return f"{kind} {name}" if kind in _OF_LAYERS else name


def _named(kind: str, name: str, sizes: dict[str, float]) -> dict[str, Any]:
    if not name:
        return {}
    what, of_micro_batch, number = name.partition(", micro-batch ")
    micro_batch = {"micro-batch": int(number)} if of_micro_batch and number.isdecimal() else {}
    if kind in _OF_LAYERS:
        return {"layer": what, **micro_batch}
    if micro_batch:
        return {"message": what, **micro_batch}
    return {"bucket": name, **({"bytes": sizes[name]} if name in sizes else {})}


def _on_threads(slices: list[Slice]) -> list[Slice]:
    """Return the slices on as few threads as possible such that each thread's slices nest."""
    threads: list[list[int]] = []  # for each thread the ends of the open slices, innermost last
    placed = []
    for one in sorted(slices, key=lambda one: (one.start_ns, -one.end_ns)):
        index = next((number for number, ends in enumerate(threads) if _nests(ends, one)), len(threads))
        if index == len(threads):
            threads.append([])
        threads[index].append(one.end_ns)
        name = one.thread if index == 0 else f"{one.thread} {index + 1}"
        placed.append(replace(one, tid=one.tid + index, thread=name))
    return placed


def _nests(ends: list[int], one: Slice) -> bool:
    while ends and ends[-1] <= one.start_ns:
        ends.pop()
    return not ends or one.end_ns <= ends[-1]
