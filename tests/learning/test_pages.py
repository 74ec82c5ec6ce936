"""Tasks that pages show are trained as the pages say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from tests.test_docs import ROOT, blocks
from tests.test_extend_it import installed, run

__all__ = ["installed"]  # a fixture

pytestmark = pytest.mark.learning


def test_the_task_of_a_package_is_trained(installed: Path) -> None:
    done = run(installed, "run", "trained.yaml", "--json", "--no-report")
    assert done.returncode == 0, done.stderr
    learning = json.loads(done.stdout)["runs"][0]["learning"]
    assert learning["task"] == "a linear model on 1,000 points of a plane"
    assert learning["final_loss"] < 0.1
    assert learning["time_to_target_s"] > 0


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the files of the page on tasks to the working folder."""
    for _, rest, text in blocks(ROOT / "docs" / "how-to" / "choose-a-task.md"):
        if rest.startswith("file="):
            (tmp_path / rest.removeprefix("file=")).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    status = main(["run", "mine.yaml", "--json", "--no-report", *more])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == 0, document
    return document


def test_the_file_of_the_page_reaches_its_target(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learning = trained(capsys)["runs"][0]["learning"]
    assert learning["task"] == "the model of my_task.py"
    assert learning["time_to_target_s"] > 0


def test_a_wrong_file_is_told_with_its_line(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (page / "my_task.py").read_text()
    (page / "my_task.py").write_text(text.replace("points.square()", "pints.square()"))
    assert main(["run", "mine.yaml", "--json", "--no-report"]) == 3
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert (error["file"], error["line"]) == ("my_task.py", 11)
    assert error["message"].startswith("NameError: name 'pints' is not defined (in the file that mine.yaml:5:18 names")
    assert "Traceback" not in capsys.readouterr().err


def test_what_only_forecasts_does_not_run_the_file(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (page / "my_task.py").write_text("raise SystemExit('run')\n")
    assert trained(capsys, "--no-learn")["runs"][0]["learning"] is None
