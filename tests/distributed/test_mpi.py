"""Real MPI: a sweep in a job of three processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clustersim.errors import InputError
from clustersim.sweep import open_executor
from tests.distributed.conftest import POINTS, ROOT

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(
        shutil.which("mpiexec") is None, reason="MPI CANNOT BE TESTED HERE: apt install openmpi-bin libopenmpi3"
    ),
]

_SWEEP = """
import json, sys
import clustersim

if __name__ == "__main__":
    found = clustersim.sweep(json.loads(sys.argv[1]), executor="mpi")
    print(json.dumps(found.to_dict()))
"""


def test_the_processes_of_a_job_give_what_one_process_gives(tmp_path: Path, serial: str) -> None:
    (tmp_path / "command.py").write_text(_SWEEP)
    about = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=True).stdout
    options = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in about or "OpenRTE" in about else []
    done = subprocess.run(
        ["mpiexec", *options, "-n", "3", sys.executable, "-m", "mpi4py.futures", "command.py", json.dumps(POINTS)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == serial


def test_a_process_that_is_not_in_a_job_says_how_to_start_one() -> None:
    with pytest.raises(InputError, match="mpi has no workers here: start `mpiexec -n 4 python"):
        open_executor("mpi")
