"""Writes anew what the commands of a page print: `python -m tests.docs_output docs/tutorial/*.md`.

Only commands under which the page shows lines are rewritten; lines with a `...` that still hold are kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.test_docs import BLOCK, commands, is_shown, output_of


def console(text: str) -> str:
    """Return a console block with the present output of its commands."""
    lines: list[str] = []
    for command in commands(text):
        printed = output_of(command.line) if command.line.startswith("clustersim ") else command.shown
        is_kept = not command.shown or ("..." in command.shown and is_shown(command.shown, printed))
        lines += [f"$ {command.line}", *(command.shown if is_kept else printed)]
    return "".join(f"{line}\n" for line in lines)


def rewrite(page: Path) -> None:
    """Run a page from top to bottom in a folder of its own, and write its outputs into it."""
    page = page.resolve()
    written, end, text = [], 0, page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for match in BLOCK.finditer(text):
            rest = match[2].strip()
            if rest.startswith("file="):
                Path(rest.removeprefix("file=")).write_text(match[3], encoding="utf-8")
            elif match[1] == "console" and rest != "installed":
                written += [text[end : match.start(3)], console(match[3])]
                end = match.end(3)
        os.chdir(page.parent)
    page.write_text("".join(written) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    for name in [Path(each).resolve() for each in sys.argv[1:]]:
        rewrite(name)
