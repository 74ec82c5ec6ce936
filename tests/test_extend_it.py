"""The example package of docs/how-to/extend-it.md: it is built, installed and used as the page says."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import ROOT, blocks, commands

PAGE = ROOT / "docs" / "how-to" / "extend-it.md"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of the page to a folder and install the package into its folder `site`."""
    folder = tmp_path_factory.mktemp("package")
    for _, rest, text in blocks(PAGE):
        if rest.startswith("file="):
            (folder / rest.removeprefix("file=")).write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(folder)], check=True, timeout=120)
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run clustersim in a process of its own, in which the package is installed."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder / "site"), str(ROOT)]), "COLUMNS": "120"}
    command = [sys.executable, "-m", "clustersim", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, timeout=120)


def test_every_command_of_the_page_runs(installed: Path) -> None:
    lines = [
        command.line
        for language, rest, text in blocks(PAGE)
        if (language, rest) == ("console", "installed")
        for command in commands(text)
    ]
    assert len(lines) == 4
    for line in lines:
        done = run(installed, *shlex.split(line)[1:])
        assert done.returncode == 0, done.stderr


def test_the_strategy_gives_its_exact_result(installed: Path) -> None:
    quick, exact = (run(installed, "run", "mine.yaml", "--json", *more).stdout for more in ((), ("--exact",)))
    numbers = [float(text[text.index('"iteration_s"') :].split(",")[0].split(":")[1]) for text in (quick, exact)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-12)


@pytest.mark.parametrize("section", ["models", "strategies", "tasks", "topologies"])
def test_members_are_listed(installed: Path, section: str) -> None:
    name = {"models": "mlp-3", "strategies": "accumulate", "tasks": "plane", "topologies": "chain"}[section]
    assert f"  {name} " in run(installed, "list", section).stdout


def test_the_package_can_be_imported_before_clustersim(installed: Path) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed / "site"), str(ROOT)])}
    code = "import my_cluster; from clustersim.learning import TASKS; assert TASKS['plane'] is my_cluster.Plane"
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=60)


def test_a_member_that_cannot_be_loaded_is_told_with_its_package(installed: Path, tmp_path: Path) -> None:
    for what in (installed / "site").iterdir():
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / what.name).symlink_to(what)
    (tmp_path / "site" / "my_cluster.py").unlink()
    (tmp_path / "mine.yaml").write_text((installed / "mine.yaml").read_text())
    done = run(tmp_path, "run", "mine.yaml", "--no-report")
    assert done.returncode == 3
    assert "my-cluster" in done.stderr
    assert "ModuleNotFoundError" in done.stderr
    assert "Traceback" not in done.stderr
