"""Executors by the name that the user gives."""

from __future__ import annotations

from clustersim.errors import unknown_name
from clustersim.sweep.executor import Executor, InProcess
from clustersim.sweep.pool import ProcessPool

EXECUTORS = ("processes", "in-process")
"""What the points of a sweep are simulated on."""


def open_executor(on: str = "processes", workers: int = 0) -> Executor:
    """Return an executor, one of `EXECUTORS`; `workers` is the number of processes, 0 for one per core."""
    if on not in EXECUTORS:
        raise unknown_name("executor", on, EXECUTORS)
    return InProcess() if on == "in-process" else ProcessPool(workers)
