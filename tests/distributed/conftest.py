"""A scenario of many points, its result in this process, and a Dask scheduler with three worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import clustersim

ROOT = Path(__file__).resolve().parents[2]
POINTS: dict[str, Any] = {
    "name": "points",
    "model": "squeezenet-1.0",
    "num_gpus": [1, 2, 3, 4, 64],
    "batch": {"per_gpu": [*range(1, 21)]},
    "topology": {"kind": "star", "num_hosts": 4, "gpu": "k80", "link": ["1 GB/s", "2 GB/s", "3 GB/s"], "hop": "1 us"},
    "software": "plain",
    "strategy": {"kind": "all-reduce", "algorithm": ["ring", "tree"]},
    "num_iterations": 1,
}
"""600 points; those of 64 GPUs are refused."""


def text_of(sweep: clustersim.Sweep) -> str:
    return json.dumps(sweep.to_dict())


@pytest.fixture(scope="session")
def serial() -> str:
    """The result of `POINTS` in this process."""
    return text_of(clustersim.sweep(POINTS))


@dataclass
class DaskProcesses:
    """A scheduler and its workers, each a process that nothing starts again."""

    folder: Path
    scheduler: subprocess.Popen[bytes] = field(init=False)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        found = self.folder / "scheduler.json"
        self.scheduler = self._start(
            "distributed.cli.dask_scheduler", *("--host", "127.0.0.1", "--port", "0"), "--scheduler-file", str(found)
        )
        until(lambda: found.exists() and found.stat().st_size > 0)
        self.address = str(json.loads(found.read_text())["address"])

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        worker = self._start(
            "distributed.cli.dask_worker", self.address, *("--nthreads", "1", "--no-nanny", "--memory-limit", "0"),
            **environment,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def _start(self, module: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments, "--no-dashboard"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stderr=(self.folder / f"{module}.log").open("ab"),
        )

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def dask_processes(tmp_path: Path) -> Iterator[DaskProcesses]:
    started = DaskProcesses(tmp_path)
    try:
        yield started
    finally:
        started.end()


def until(has_come: Callable[[], bool], most_s: float = 60) -> None:
    end_s = time.monotonic() + most_s
    while not has_come():
        assert time.monotonic() < end_s
        time.sleep(0.05)
