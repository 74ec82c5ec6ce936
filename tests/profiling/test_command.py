"""The command and the single file, as far as they work without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.profiling import main as own
from clustersim.profiling.pack import write_profiler


def run_file(file: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the single file as a bare node would: no site packages, nothing of this checkout."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, "-I", "-S", str(file), *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["profile_kernels.pyz", "profile_kernels.py"])
def test_the_single_file_runs_where_nothing_is_installed(tmp_path: Path, name: str) -> None:
    file = write_profiler(tmp_path / "out" / name)
    done = run_file(file, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Measure the time of every layer of a model" in done.stdout
    done = run_file(file, "resnet50", "--device", "cpu", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "not installed here: pip install torch" in done.stderr


def test_the_single_file_is_the_same_every_time_and_has_nothing_but_the_room(tmp_path: Path) -> None:
    import zipfile

    first, second = (write_profiler(tmp_path / name).read_bytes() for name in ("a.pyz", "b.py"))
    assert first == second
    names = zipfile.ZipFile(tmp_path / "a.pyz").namelist()
    rest = [name for name in names if not name.startswith("clustersim/profiling/")]
    assert rest == ["__main__.py", "clustersim/__init__.py"]


def test_the_single_file_says_which_python_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import runpy

    file = write_profiler(tmp_path / "a.pyz")
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(SystemExit, match=r"this needs Python 3\.10 or newer"):
        runpy.run_path(str(file), run_name="__main__")


def test_the_command_writes_the_single_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.pyz"
    assert main(["profile", "--write-script", str(file)]) == 0
    assert capsys.readouterr().out == f"profiler: {file}\n"
    assert file.stat().st_size > 10_000


def test_a_single_file_that_cannot_be_written_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--write-script", str(tmp_path)]) == 3
    assert "cannot write" in capsys.readouterr().err


def test_a_campaign_without_a_model_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile"]) == 2
    assert "name a model, or --write-script FILE" in capsys.readouterr().err
    assert main(["profile", "nin", "--write-script", "x.pyz"]) == 2
    assert "omit MODEL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch", "none"], "'none' of --batch none is not a batch"),
        (["--precision", "fp8"], "no precision is called 'fp8' (known: fp32, tf32, amp-bf16, amp-fp16)"),
        (["--layout", "chwn"], "no layout is called 'chwn'"),
        (["--max-seconds", "0"], "--max-seconds is a time above 0 (got 0)"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_both_commands(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "nin", "--json", *arguments]) == 3
    shown = capsys.readouterr()
    assert message in shown.err
    assert message in json.loads(shown.out)["errors"][0]["message"]
    assert own.main(["nin", *arguments]) == 3
    assert message in capsys.readouterr().err


def test_without_torch_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = util.find_spec
    monkeypatch.setattr(own, "find_spec", lambda name: None if name == "torch" else real(name))
    assert main(["profile", "nin", "--device", "cpu"]) == 3
    assert "pip install torch" in capsys.readouterr().err
