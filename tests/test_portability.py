"""What the core may use of the system, so that it runs on macOS and Windows too. Neither is run here: Linux without
what the others lack stands for them.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clustersim.hardware.sheet_catalogue import is_path
from clustersim.reading import looks_like_path

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "clustersim").rglob("*.py"))
SCENARIO = ROOT / "scenarios" / "firecaffe-googlenet.yaml"

POSIX_MODULES = {"fcntl", "grp", "pwd", "pty", "resource", "syslog", "termios", "tty", "readline", "posix", "curses"}
POSIX_CALLS = {
    "fork",
    "getuid",
    "geteuid",
    "getgid",
    "uname",
    "getpgid",
    "setsid",
    "killpg",
    "mkfifo",
    "statvfs",
    "nice",
}
GUARDED = {"sched_getaffinity": "clustersim/sweep/pool.py"}
"""Calls that Windows or macOS lack, and the only file that has them, where it looks first."""

SIGNALS = {"signal", "SIGINT", "SIGTERM", "SIG_IGN", "SIG_DFL"}


def calls(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node


def attributes(file: Path, of: str) -> Iterator[str]:
    """Yield what a file uses of a module that it has under its own name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == of:
            yield node.attr


def test_no_file_imports_a_module_that_windows_lacks() -> None:
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert POSIX_MODULES.isdisjoint(name.partition(".")[0] for name in names), file


def test_no_file_calls_what_windows_or_macos_lack() -> None:
    for file in FILES:
        used = set(attributes(file, "os"))
        assert POSIX_CALLS.isdisjoint(used), file
        for call, where in GUARDED.items():
            assert call not in used or file == ROOT / where, file
        assert set(attributes(file, "signal")) <= SIGNALS, file


def test_text_is_read_and_written_as_utf_8_without_other_ends_of_lines() -> None:
    for file in FILES:
        for call in calls(file):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name == "read_text" and not call.args and isinstance(call.func, ast.Attribute):
                assert any(keyword.arg == "encoding" for keyword in call.keywords), f"{file}:{call.lineno}"
            assert name != "write_text", f"{file}:{call.lineno}: write_text ends lines as the system does"


@pytest.mark.parametrize(
    "path", [r"C:\clusters\mine.yaml", r"clusters\mine", r"..\mine.yaml", r"\\server\share\mine.yaml"]
)
def test_a_path_of_windows_is_a_path(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sep", "\\")
    assert looks_like_path(path)
    assert is_path(path)


WITHOUT = """
import os, sys
for name in {modules!r}:
    sys.modules[name] = None
import clustersim.cli, concurrent.futures.process, subprocess, numpy, pydantic, ruamel.yaml, rich
for name in {calls!r}:
    if hasattr(os, name):
        delattr(os, name)
sys.exit(clustersim.cli.main({arguments!r}))
"""


def output(*arguments: str, absent: bool, cwd: Path, **environment: str) -> bytes:
    """Return what a command prints, where modules and calls of POSIX are absent."""
    modules, lacking = (sorted(POSIX_MODULES - {"posix"}), sorted({*POSIX_CALLS, *GUARDED})) if absent else ([], [])
    code = WITHOUT.format(modules=modules, calls=lacking, arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env={**os.environ, **environment}, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done.stdout


def test_a_forecast_without_posix_has_the_same_bytes(tmp_path: Path) -> None:
    command = ("run", "firecaffe-googlenet", "--json")
    assert output(*command, absent=True, cwd=tmp_path) == output(*command, absent=False, cwd=tmp_path)


def test_a_scenario_with_the_ends_of_lines_of_windows_has_the_same_runs(tmp_path: Path) -> None:
    text = SCENARIO.read_bytes()
    assert b"\r\n" not in text
    (tmp_path / "firecaffe-googlenet.yaml").write_bytes(text.replace(b"\n", b"\r\n"))
    command = ("run", "firecaffe-googlenet.yaml", "--json")
    here = json.loads(output(*command, absent=True, cwd=tmp_path))
    shipped = json.loads(output("run", "firecaffe-googlenet", "--json", absent=False, cwd=tmp_path))
    assert here["runs"] == shipped["runs"]


def test_a_terminal_without_utf_8_shows_every_list(tmp_path: Path) -> None:
    code_page = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "LC_ALL": "C"}
    assert b"firecaffe-googlenet" in output("list", absent=True, cwd=tmp_path, **code_page)


def test_worker_processes_are_started_anew_as_on_windows_and_macos() -> None:
    found = [
        (file, argument.value)
        for file in FILES
        for call in calls(file)
        if getattr(call.func, "id", getattr(call.func, "attr", "")) == "get_context"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]
    assert [value for _, value in found] == ["spawn"]
