"""The update log of a sweep as people read it, one line a gradient, or as a CSV table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from clustersim.results import Run, Sweep, write_atomically

_COLUMNS = ["time_s", "worker", "version_read", "version_written", "staleness", "learning_rate", "accepted"]


def write_updates(sweep: Sweep, path: str | Path) -> Path:
    """Write every run's update log, of its first replicate: as CSV where the name says so, else as `update_lines`.

    A worker of -1 stands for all workers together. A name ending in .gz is compressed.
    """
    if {".csv"} & set(Path(path).suffixes):
        return write_atomically(path, _csv(sweep))
    lines = [line for run in sweep.runs for line in (f"# {_title(run)}", *update_lines(run), "")]
    return write_atomically(path, "\n".join(lines))


def update_lines(run: Run) -> Iterator[str]:
    """Yield the updates as textbooks write them: `W_101 = W_100 - lr * dW_97 (worker 3, staleness 3)`."""
    return (str(update) for update in run.updates.rows())


def _title(run: Run) -> str:
    axes = ", ".join(f"{key} {value}" for key, value in run.axes.items())
    return axes or f"{run.num_gpus} GPUs"


def _csv(sweep: Sweep) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", *_COLUMNS])
    for run in sweep.runs:
        for update in run.updates.rows():
            writer.writerow([_title(run), *(getattr(update, name) for name in _COLUMNS)])
    return text.getvalue()
