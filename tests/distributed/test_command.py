"""`clustersim sweep --on tcp://...` with a ledger gives the bytes of one process, whatever is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.conftest import POINTS, ROOT, DaskProcesses, until

pytestmark = pytest.mark.distributed


class Sweeping:
    """The scenario of many points in a folder, and commands on it."""

    def __init__(self, folder: Path):
        self._folder = folder
        (folder / "points.yaml").write_text(json.dumps(POINTS))

    def start(self, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "clustersim", "sweep", "points.yaml", "--quiet", *options]
        return subprocess.Popen(
            command,
            cwd=self._folder,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str) -> str:
        process = self.start(*options)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        return output

    def num_done(self, ledger: str) -> int:
        if not (self._folder / ledger).exists():
            return 0
        command = [sys.executable, "-m", "clustersim", "status", ledger, "--json"]
        found = subprocess.run(
            command, cwd=self._folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
        )
        sweeps = json.loads(found.stdout).get("sweeps") if found.returncode == 0 else None
        return sweeps[0]["done"] if sweeps else 0


@pytest.fixture
def sweeping(tmp_path: Path) -> Sweeping:
    return Sweeping(tmp_path)


def test_a_killed_worker_changes_no_byte(dask_processes: DaskProcesses, sweeping: Sweeping) -> None:
    workers = [dask_processes.start_worker() for _ in range(3)]
    process = sweeping.start("--on", dask_processes.address, "--ledger", "runs.db", "--json")
    until(lambda: sweeping.num_done("runs.db") > 50)
    workers[0].kill()
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert output == sweeping.run("--on", "in-process", "--json")


def test_a_lost_scheduler_ends_the_command_and_the_same_command_goes_on(
    dask_processes: DaskProcesses, sweeping: Sweeping
) -> None:
    dask_processes.start_worker()
    process = sweeping.start("--on", dask_processes.address, "--ledger", "runs.db", "--json")
    until(lambda: sweeping.num_done("runs.db") > 50)
    dask_processes.scheduler.kill()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "is gone" in errors
    assert "the same command goes on from runs.db" in errors
    kept = sweeping.num_done("runs.db")
    assert kept > 50
    assert sweeping.run("--ledger", "runs.db", "--json") == sweeping.run("--on", "in-process", "--json")
