"""Exit statuses, output streams, and the end of the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.cli import main
from clustersim.cli.progress import _lines
from clustersim.errors import InputError, Mistake, SimulationError, ToleranceError
from tests.cli.tiny import SCENARIO


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def app(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr("clustersim.cli.app", app)


class TestExitStatus:
    def test_done_is_0(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--version"]) == 0
        assert capsys.readouterr().out == f"clustersim {clustersim.__version__}\n"

    @pytest.mark.parametrize(
        "arguments",
        [
            ["no-such-command"],
            ["run"],
            ["run", "x", "--seed", "-1"],
            ["run", "x", "--report", "a.html", "--no-report"],
            ["collective", "all-reduce", "--topology", "titan", "--gpus", "0", "--bytes", "1B"],
        ],
    )
    def test_usage_is_2_and_explained(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "Usage: clustersim" in err
        assert "Error: " in err

    @pytest.mark.parametrize("arguments", [["list", "nonsense"], ["copy", "nonsense"], ["collective", "nonsense"]])
    def test_an_unknown_name_exits_3(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        more = ["--topology", "titan", "--gpus", "4", "--bytes", "1 B"] if arguments[0] == "collective" else []
        assert main([*arguments, *more]) == 3
        assert "is called 'nonsense'" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("error", "status"), [(SimulationError("stuck"), 1), (InputError("wrong"), 3), (ToleranceError("off"), 4)]
    )
    def test_our_errors_have_no_traceback(
        self, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fail_with(monkeypatch, error)
        assert main(["run", "x"]) == status
        assert capsys.readouterr() == ("", f"{error}\n")

    def test_a_bug_is_1_with_its_traceback(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fail_with(monkeypatch, ZeroDivisionError("oh"))
        assert main(["run", "x"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("Traceback")
        assert "ZeroDivisionError: oh" in err

    def test_interrupted_is_130(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        def interrupt(*arguments: Any, **options: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("clustersim.data.shipped_files", interrupt)
        assert main(["copy", "x"]) == 130
        assert capsys.readouterr() == ("", "interrupted: unfinished files were not written\n")

    def test_no_arguments_show_the_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([]) == 2
        assert "Commands:" in "".join(capsys.readouterr())


class TestErrorsAsJson:
    def test_every_mistake_is_there_with_all_its_keys(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        mistakes = [Mistake("bad", key="a.b", file="f.yaml", line=3, column=4, got="1", allowed="2"), Mistake("worse")]
        fail_with(monkeypatch, InputError(mistakes))
        assert main(["run", "x", "--json"]) == 3
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "clustersim.error/1"
        assert document["errors"][0] == {
            "file": "f.yaml",
            "line": 3,
            "column": 4,
            "key": "a.b",
            "got": "1",
            "allowed": "2",
            "message": "bad",
        }
        assert document["errors"][1]["message"] == "worse"
        assert document["errors"][1]["line"] is None

    @pytest.mark.parametrize(("error", "status"), [(SimulationError("stuck"), 1), (RuntimeError("oh"), 1)])
    def test_other_failures_are_documents_too(
        self, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fail_with(monkeypatch, error)
        assert main(["run", "x", "--json"]) == status
        (mistake,) = json.loads(capsys.readouterr().out)["errors"]
        assert str(error) in mistake["message"]

    def test_usage_errors_are_documents_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "--json"]) == 2
        (mistake,) = json.loads(capsys.readouterr().out)["errors"]
        assert "SCENARIO" in mistake["message"]


class TestProcess:
    def test_module_and_command_are_the_same(self) -> None:
        done = subprocess.run([sys.executable, "-m", "clustersim", "--version"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"clustersim {clustersim.__version__}\n")

    def test_a_reader_that_goes_away_is_no_error(self) -> None:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([sys.executable, "-m", "clustersim", "list"], stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert done.stderr == b""

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    @pytest.mark.parametrize(
        ("streams", "status", "said"),
        [
            (">&-", 0, ""),
            ("2>&-", 0, None),
            (">&- 2>&-", 0, ""),
            ("2>/dev/full", 0, None),
            (">/dev/full", 1, "cannot write to the standard output: No space left on device\n"),
            (">/dev/full 2>&-", 1, ""),
            (">/dev/full 2>/dev/full", 1, ""),
        ],
    )
    def test_the_result_is_written_whatever_the_streams_are(
        self, streams: str, status: int, said: str | None, tmp_path: Path
    ) -> None:
        (tmp_path / "tiny.yaml").write_text(SCENARIO)
        command = f"{sys.executable} -m clustersim run tiny.yaml {streams}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert done.returncode == status
        assert said is None or done.stdout + done.stderr == said
        (folder,) = (tmp_path / "runs").iterdir()
        assert {each.name for each in folder.iterdir()} == {"result.json", "report.html"}

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    def test_an_error_keeps_its_status_where_the_output_is_full(self) -> None:
        command = f"{sys.executable} -m clustersim run not-there --json >/dev/full"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 3
        assert "Traceback" not in done.stderr
        assert "not-there" in done.stderr

    def test_control_c_ends_with_130(self, folder: Path) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", _WAIT_FOR_INTERRUPT],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "Traceback" not in err


_WHILE_LOADING = """
import importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["clustersim", "list", "--json"]
from clustersim.__main__ import main
sys.exit(main())
"""


def test_control_c_before_the_command_line_is_read_ends_with_130_too() -> None:
    done = subprocess.run([sys.executable, "-c", _WHILE_LOADING], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["schema"] == "clustersim.error/1"


_WAIT_FOR_INTERRUPT = """
import sys, time
import clustersim.data
from clustersim.cli import main

def wait(folder):
    print("ready", flush=True)
    time.sleep(30)

clustersim.data.shipped_files = wait
sys.exit(main(["copy", "x"]))
"""


class TestProgress:
    def test_a_log_has_at_most_one_line_per_second_and_tenth(self, capsys: pytest.CaptureFixture[str]) -> None:
        times = iter([0.0, 0.4, 1.1, 1.5, 2.2, 3.3, 4.4])
        on_progress = _lines(clock=lambda: next(times))
        for share in (0.25, 0.5, 0.75, 0.875, 0.9, 1.0):
            on_progress(share, "num_gpus 2")
        said = [f"{share} done (num_gpus 2)" for share in ("50%", "88%", "100%")]
        assert capsys.readouterr().err.splitlines() == said

    def test_quiet_says_nothing(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(time, "monotonic", iter(range(1000)).__next__)
        assert main(["run", "tiny.yaml", "--json", "--quiet"]) == 0
        assert capsys.readouterr().err == ""
