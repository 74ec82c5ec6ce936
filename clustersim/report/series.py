"""Which runs of a sweep belong on one line, what each is called, and which one the page talks about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clustersim.report.words import count, gpus
from clustersim.results import Run, Sweep


@dataclass(frozen=True)
class Series:
    """Runs that differ in nothing but the number of GPUs, smallest first; `label` is empty if it is the only one."""

    label: str
    runs: tuple[Run, ...]


def varied(sweep: Sweep) -> tuple[str, ...]:
    """Return the axes other than the number of GPUs that take more than one value, in the scenario's order."""
    keys = dict.fromkeys(key for run in sweep.runs for key in run.axes if key != "num_gpus")
    return tuple(key for key in keys if len({repr(run.axes.get(key)) for run in sweep.runs}) > 1)


def series(sweep: Sweep) -> tuple[Series, ...]:
    """Return the sweep's lines in the order of its axes."""
    keys = varied(sweep)
    groups: dict[str, list[Run]] = {}
    for run in sweep.runs:
        groups.setdefault(repr([run.axes.get(key) for key in keys]), []).append(run)
    return tuple(
        Series(series_label(runs[0], keys), tuple(sorted(runs, key=lambda run: run.num_gpus)))
        for runs in groups.values()
    )


def series_label(run: Run, keys: tuple[str, ...]) -> str:
    """Name a run by those axes: `ring, batch 32`."""
    return ", ".join(axis_value(key, run.axes.get(key)) for key in keys)


def axis_value(key: str, value: Any) -> str:
    """Write one value of an axis so that it can stand alone.

    >>> axis_value("strategy.algorithm", "ring"), axis_value("batch.per_gpu", 32), axis_value("strategy.overlap", True)
    ('ring', 'batch.per_gpu 32', 'overlap on')
    """
    leaf = key.rpartition(".")[2]
    if value is None:
        return f"no {leaf}"
    if isinstance(value, bool):
        return f"{leaf} {'on' if value else 'off'}"
    if isinstance(value, int | float):
        return f"{leaf if len(leaf) > 1 and leaf not in ('per_gpu', 'num') else key} {count(value)}"
    if isinstance(value, Mapping):
        inner = (axis_value(name, part) for name, part in value.items() if not isinstance(part, list | tuple))
        return " ".join(inner) or leaf
    if isinstance(value, list | tuple):
        return ", ".join(axis_value(key, part) for part in value) or f"no {leaf}"
    return str(value)


def run_label(sweep: Sweep, run: Run) -> str:
    """Name a run: `128 GPUs, ring`."""
    return ", ".join(part for part in (gpus(run.num_gpus), series_label(run, varied(sweep))) if part)


def headline(sweep: Sweep) -> Run:
    """Return the run the page talks about: the most GPUs, and of these the most samples per second."""
    return max(sweep.runs, key=lambda run: (run.num_gpus, run.samples_per_s))


def largest(sweep: Sweep) -> tuple[Run, ...]:
    """Return the runs at the largest number of GPUs, the fastest first."""
    most = max(run.num_gpus for run in sweep.runs)
    runs = [run for run in sweep.runs if run.num_gpus == most]
    return tuple(sorted(runs, key=lambda run: -run.samples_per_s))


def told_apart(sweep: Sweep, limit: int) -> tuple[Run, ...]:
    """Return the runs worth a picture of their own: the headline first, then its rivals, then smaller sizes."""
    first = headline(sweep)
    rivals = [run for run in largest(sweep) if run is not first]
    smaller = [run for run in sweep.runs if run.num_gpus != first.num_gpus]
    smaller.sort(key=lambda run: (-run.num_gpus, -run.samples_per_s))
    return (first, *rivals, *smaller)[:limit]
