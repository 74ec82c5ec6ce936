"""The worker as one file, and its parts that need no torch."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.data import data_folder
from clustersim.validation.real_file import read_real_run
from tests.validation import real_runs as made


def run_file(file: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the single file as on a bare node: no site packages, nothing of this checkout."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, "-I", "-S", str(file), *arguments],
        cwd=file.parent, env=kept | environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = tmp_path / "out" / "real_run.pyz"
    assert main(["validate", "--write-worker", str(file)]) == 0
    assert f"worker: {file}" in capsys.readouterr().out
    return file


def test_the_single_file_runs_without_installed_packages(worker: Path) -> None:
    done = run_file(worker, "--help")
    assert done.returncode == 0, done.stderr
    assert "one process per GPU" in " ".join(done.stdout.split())
    done = run_file(worker)
    assert (done.returncode, done.stdout) == (3, "")
    assert "not installed here: pip install torch" in done.stderr


def test_the_script_in_a_checkout_finds_its_modules(tmp_path: Path) -> None:
    script = data_folder("validate") / "real_run" / "worker.py"
    done = subprocess.run(
        [sys.executable, str(script), "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--straggler R:F" in done.stdout


def test_the_single_file_is_reproducible_and_has_two_packages(worker: Path) -> None:
    before = worker.read_bytes()
    assert main(["validate", "--write-worker", str(worker)]) == 0
    assert worker.read_bytes() == before
    names = zipfile.ZipFile(worker).namelist()
    assert {"__main__.py", "real_run/command.py", "clustersim/profiling/net.py"} <= set(names)
    assert all(name.startswith(("real_run/", "clustersim/profiling/", "clustersim/__", "__main__")) for name in names)


def test_an_unwritable_path_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(["validate", "--write-worker", str(tmp_path / "file" / "worker.pyz")]) == 3
    assert "cannot write" in capsys.readouterr().err


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(data_folder("validate")))
    return import_module("real_run.record")


def test_a_job_that_dies_leaves_all_finished_phases(record: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    job = record.Record(path, {"facts": made.facts()}, ["all-reduce", "alexnet: compute", "alexnet: async"])
    assert read_real_run(path).phases == ()
    job.add("all-reduce", "all-reduce", {"rows": [{"num_bytes": 4, "time_s": 1e-3}]})
    assert [phase.name for phase in read_real_run(path).phases] == ["all-reduce"]
    job.fail("alexnet: compute", "it burns")
    assert read_real_run(path).missing == (
        "alexnet: compute: the job failed here (it burns)",
        "alexnet: async: was not measured: the job ended before it",
    )


def test_a_complete_job_has_nothing_missing(record: Any, tmp_path: Path) -> None:
    job = record.Record(tmp_path / "run.json", {"facts": made.facts()}, [])
    job.finish()
    assert read_real_run(tmp_path / "run.json").missing == ()
    assert not list(tmp_path.glob("*.part*"))
