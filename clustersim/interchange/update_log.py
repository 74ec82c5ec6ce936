"""The update log of a sweep as text, one line per gradient, or as a CSV table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from clustersim.errors import InputError
from clustersim.results import Run, Sweep, UpdateLog, write_atomically

_COLUMNS = ["time_s", "worker", "version_read", "version_written", "staleness", "learning_rate", "accepted"]


def write_updates(sweep: Sweep, path: str | Path) -> Path:
    """Write every run's update logs, replicates in sequence: as CSV where the name ends so, otherwise as lines.

    Replicates count from 1; lines are those of `update_lines`. Worker -1 stands for all workers together. A name
    ending in .gz is compressed.
    """
    if {".csv"} & set(Path(path).suffixes):
        return write_atomically(path, _csv(sweep))
    lines = [line for run in sweep.ran for line in _lines(run)]
    return write_atomically(path, "\n".join(lines))


def update_lines(run: Run, replicate: int = 1) -> Iterator[str]:
    """Yield one replicate's updates as formulas: `W_101 = W_100 - lr * dW_97 (worker 3, staleness 3)`."""
    logs = _logs(run)
    if not 1 <= replicate <= len(logs):
        raise InputError(
            f"the run has no replicate {replicate}",
            got=f"replicate {replicate}",
            allowed=f"a number from 1 to {len(logs)}",
        )
    return (str(update) for update in logs[replicate - 1].rows())


def _logs(run: Run) -> tuple[UpdateLog, ...]:
    return (run.updates, *run.more_updates)


def _lines(run: Run) -> Iterator[str]:
    number = len(_logs(run))
    for replicate in range(1, number + 1):
        yield f"# {_title(run)}{f', replicate {replicate}' if number > 1 else ''}"
        yield from update_lines(run, replicate)
        yield ""


def _title(run: Run) -> str:
    axes = ", ".join(f"{key} {value}" for key, value in run.axes.items())
    return axes or f"{run.num_gpus} GPUs"


def _csv(sweep: Sweep) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "replicate", *_COLUMNS])
    for run in sweep.ran:
        for replicate, log in enumerate(_logs(run), 1):
            for update in log.rows():
                writer.writerow([_title(run), replicate, *(getattr(update, name) for name in _COLUMNS)])
    return text.getvalue()
