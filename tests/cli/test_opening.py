"""`--open`: the report in the browser that the environment names, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clustersim.cli import main
from tests.cli.tiny import files

WHERE = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")


def command(folder: Path, *arguments: str, browser: str | None) -> subprocess.CompletedProcess[str]:
    """Run a command where no display is, and BROWSER is the one given."""
    environment = {name: value for name, value in os.environ.items() if name not in WHERE}
    if browser is not None:
        environment["BROWSER"] = browser
    return subprocess.run(
        [sys.executable, "-m", "clustersim", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def browser(folder: Path) -> str:
    """Return a browser that notes the address it is given; it fails where the address is of a file that is missing."""
    path = folder / "browser"
    path.write_text(f'#!/bin/sh\necho "$1" >> {folder}/opened\ntest -f "${{1#file://}}"\n')
    path.chmod(0o755)
    return str(path)


def opened(folder: Path) -> list[str]:
    return (folder / "opened").read_text().splitlines()


def test_run_opens_the_report_that_it_wrote(folder: Path, browser: str) -> None:
    done = command(folder, "run", "tiny.yaml", "--open", browser=browser)
    assert done.returncode == 0
    assert opened(folder) == [(folder / "runs/tiny/report.html").as_uri()]
    assert "no browser" not in done.stderr


def test_json_opens_the_report_that_was_asked_for(folder: Path, browser: str) -> None:
    done = command(folder, "run", "tiny.yaml", "--json", "--report", "r.html", "--open", browser=browser)
    assert (done.returncode, opened(folder)) == (0, [(folder / "r.html").as_uri()])


def test_report_opens_what_it_drew_again(folder: Path, browser: str) -> None:
    assert main(["run", "tiny.yaml", "--no-report", "--quiet"]) == 0
    done = command(folder, "report", "runs/tiny", "-o", "again.html", "--open", browser=browser)
    assert (done.returncode, opened(folder)) == (0, [(folder / "again.html").as_uri()])


@pytest.mark.parametrize("wrong", [None, "/no/such/browser", "false"], ids=["no display", "missing", "fails"])
def test_where_no_browser_opens_the_run_is_done_and_the_address_is_said(folder: Path, wrong: str | None) -> None:
    done = command(folder, "run", "tiny.yaml", "--open", browser=wrong)
    assert done.returncode == 0
    assert (folder / "runs/tiny/report.html").as_uri() in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "tiny.yaml", "--open", "--no-report"],
        ["run", "tiny.yaml", "--open", "--json"],
        ["report", "runs/tiny", "--open", "--updates", "log.txt"],
    ],
)
def test_nothing_is_opened_where_no_report_is_written(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "--open needs a report" in capsys.readouterr().err
    assert files(folder) == {"tiny.yaml", "star.yaml"}
