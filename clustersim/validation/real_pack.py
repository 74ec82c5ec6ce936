"""Packs the worker for real nodes into one file that needs only torch: `torchrun ... real_run.pyz`."""

from __future__ import annotations

from pathlib import Path

from clustersim.data import data_folder
from clustersim.profiling.pack import write_archive


def write_worker(path: Path) -> Path:
    """Write one file with the worker and the profiler that it uses; an existing file is replaced."""
    return write_archive(path, "real_run.command", {"real_run": data_folder("validate") / "real_run"})
