"""Loss and accuracy of really trained tasks as a CSV table: one row for each evaluation of each seed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clustersim.errors import InputError
from clustersim.interchange.csv_file import write_rows
from clustersim.results import Run, Sweep
from clustersim.results.rows import Cell


def write_curves(sweep: Sweep, path: str | Path) -> Path:
    """Write `run, seed, seconds, updates, loss, accuracy` of every evaluation; seeds count from 1.

    `run` has the values of the axes. A name ending in .gz is compressed.
    """
    rows = [row for run in sweep.ran for row in _rows(run)]
    if not rows:
        message = f"no run of '{sweep.name}' trained anything; give the scenario `learning`, and leave --no-learn out"
        raise InputError(message, got="no curves", allowed="a run with `learning`")
    return write_rows(rows, path)


def _rows(run: Run) -> Iterator[dict[str, Cell]]:
    title = ", ".join(f"{key} {value}" for key, value in run.axes.items()) or f"{run.num_gpus} GPUs"
    for seed, curve in enumerate(() if run.learning is None else run.learning.seed_curves, 1):
        for point in curve:
            yield {"run": title, "seed": seed, **point._asdict()}
