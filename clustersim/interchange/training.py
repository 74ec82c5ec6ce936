"""A long training with failures as a process of a trace, scaled to the length of the traced iterations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clustersim.interchange.slices import Slice
from clustersim.results import Run

_NAMES = {"useful": "useful work and checkpoints", "lost": "lost work", "restart": "down and restart"}


def training_events(run: Run, slices: list[Slice], pid: int) -> Iterator[dict[str, Any]]:
    """Yield a slice for each interval of the training between failures; none where nothing can fail.

    A training takes much longer than the traced part, so its times are scaled down, by the factor in the
    process name: its end is the end of the trace. `args` have its true seconds.
    """
    if run.failures is None:
        return
    states = run.failures.states()
    first_ns, last_ns = min(one.start_ns for one in slices), max(one.end_ns for one in slices)
    ns_per_s = (last_ns - first_ns) / states[-1].end_s
    name = f"training with failures, {1e9 / ns_per_s:.3g} times smaller than its time"
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    for one in states:
        label = _NAMES[one.state] + (f": {one.what}" if one.what else "")
        start_ns, end_ns = (first_ns + round(time_s * ns_per_s) for time_s in (one.start_s, one.end_s))
        yield {
            "ph": "X",
            "name": label,
            "cat": one.state,
            "pid": pid,
            "tid": 1,
            "ts": start_ns / 1000,
            "dur": (end_ns - start_ns) / 1000,
            "args": {"start_s": one.start_s, "duration_s": one.end_s - one.start_s},
        }
