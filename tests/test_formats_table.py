"""The table of formats names every format there is, and only commands and options that exist."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clustersim.cli import app
from clustersim.interchange.topology_exports import EXPORTS
from clustersim.interchange.topology_files import FORMATS
from tests.test_docs import ROOT, blocks, commands, run

HOW_TO = ROOT / "docs" / "how-to" / "import-a-cluster.md"


def table() -> list[str]:
    """Return the rows of the page on files of other programs."""
    text = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith("| ")]


def test_every_command_of_the_table_exists_with_its_options() -> None:
    found = set(re.findall(r"`clustersim ([^`]+)`", "\n".join(table())))
    assert len(found) >= 15
    for command in found:
        words = command.split()
        options = [word for word in words if word.startswith("--")]
        first = words.index(options[0]) if options else len(words)
        result = CliRunner().invoke(app, [*words[:first], "--help"], env={"COLUMNS": "200"})
        assert result.exit_code == 0, command
        assert all(option in result.output for option in options), command


@pytest.mark.parametrize("name", [*FORMATS, *EXPORTS])
def test_every_format_of_a_topology_is_in_the_table_and_in_the_how_to(name: str) -> None:
    assert f"({name})" in "\n".join(table())
    assert name in HOW_TO.read_text(encoding="utf-8") or name == "json"


def test_three_commands_from_a_matrix_and_a_config_to_a_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    text = HOW_TO.read_text(encoding="utf-8").split("## Which files")[0]
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    shown = []
    for language, rest, block in blocks(page):
        if rest.startswith("file="):
            Path(rest.removeprefix("file=")).write_text(block, encoding="utf-8")
        elif language == "console":
            shown += commands(block)
    assert [command.line.split()[1] for command in shown] == ["import", "import", "run"]
    start = time.monotonic()
    for command in shown:
        run(command)
    assert time.monotonic() - start < 120
    assert (tmp_path / "runs" / "scenario" / "report.html").exists()
