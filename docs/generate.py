"""Writes the reference pages that are made from the program itself: `make reference`.

Tests compare the pages in the repository with what these functions return.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from pathlib import Path

import typer

from clustersim.cli import app, main
from clustersim.scenario.reference import reference_page

REFERENCE = Path(__file__).resolve().parent / "reference"

CLI_HEADING = """\
# Commands

`clustersim COMMAND --help` prints the same. Results go to stdout, progress and complaints to stderr.

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | the simulation failed |
| 2 | usage: the command line itself is wrong |
| 3 | the scenario or another input file is wrong |
| 4 | outside the tolerance asked for |
| 130 | interrupted |

With `--json`, stdout gets exactly one document. When something goes wrong that is
`{"schema": "clustersim.error/1", "errors": [{"file", "line", "column", "key", "got", "allowed", "message"}]}`,
with null for what does not apply.
"""


def pages() -> Mapping[str, str]:
    """Return the pages by file name."""
    return {"cli.md": cli_page(), "scenario.md": reference_page()}


def cli_page() -> str:
    """Return the page of all commands, from their own help."""
    sections = [f"## clustersim {command}\n\n```text\n{_help(command.split())}```\n" for command in _commands()]
    return "\n".join([CLI_HEADING, f"## clustersim\n\n```text\n{_help([])}```\n", *sections])


def _commands() -> list[str]:
    found = []
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        found += [f"{name} {sub}" for sub in inner] if inner else [name]
    return found


def _help(command: list[str]) -> str:
    """Return a command's help, 100 columns wide whatever terminal this runs in."""
    os.environ["COLUMNS"] = "100"
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main([*command, "--help"])
    return output.getvalue()


if __name__ == "__main__":
    for page, text in pages().items():
        (REFERENCE / page).write_text(text, encoding="utf-8")
