"""Every command and every piece of Python in README and docs runs, and generated pages are current.

In a page, a fenced block ```yaml file=NAME (or toml, json) makes that file for the blocks after it. Of a ```console
block each line that starts with `$ ` is run. Lines under it are all that the command prints, but for blank lines; a
line `...` stands for any number of lines. `python -m tests.docs_output PAGE` writes them anew.
```python blocks run one after the other in one namespace; what they print is not compared. Blocks that say `notebook`
need pandas, and `make test-notebook` runs their pages with them; `learning`, torch and `make test-learning` likewise.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import typer

from clustersim.cli import app, main
from clustersim.collectives import ALL_REDUCE
from tests.script import load_script

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


class Command(NamedTuple):
    """A command of a console block, and the lines of output that the page shows."""

    line: str
    shown: list[str]


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Yield language, rest of the opening line, and text of each fenced block."""
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield match[1], match[2].strip(), match[3]


def commands(text: str) -> list[Command]:
    """Return the commands of a console block."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif line.strip():
            found[-1].shown.append(line.rstrip())
    return found


def output_of(line: str) -> list[str]:
    """Run a clustersim command in this process and return the lines that it prints, without blank ones."""
    line, _, redirect = line.partition(" > ")
    program, *arguments = shlex.split(line)
    assert program == "clustersim", line
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = main(arguments)
    assert status == 0, line
    if redirect:
        Path(redirect).write_text(output.getvalue(), encoding="utf-8")
    return [text.rstrip() for text in output.getvalue().splitlines() if text.strip()]


def is_shown(shown: list[str], printed: list[str]) -> bool:
    """Return whether a page shows what a command prints; `...` stands for any number of lines.

    >>> is_shown(["a", "..."], ["a", "b"]), is_shown(["a"], ["a", "b"]), is_shown(["...", "b"], ["a", "b"])
    (True, False, True)
    """
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def run(command: Command) -> None:
    """Run a command and compare what it prints with what the page shows, if it shows anything."""
    printed = output_of(command.line)
    assert not command.shown or is_shown(command.shown, printed), (
        f"`{command.line}` prints what the page does not show (python -m tests.docs_output PAGE):\n"
        + "\n".join(printed)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_everything_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(ALL_REDUCE, "_members", dict(ALL_REDUCE._members))  # a page registers an algorithm
    run_page(page)


def pages_that_need(extra: str) -> list[Path]:
    """Return the pages with blocks that say that they need an extra."""
    return [page for page in PAGES if re.search(rf"^```\w+ {extra}$", page.read_text(encoding="utf-8"), re.MULTILINE)]


@pytest.mark.notebook
@pytest.mark.parametrize("page", pages_that_need("notebook"))
def test_what_needs_pandas_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run_page(page, "notebook")


@pytest.mark.learning
@pytest.mark.parametrize("page", pages_that_need("learning"))
def test_what_needs_torch_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run_page(page, "learning")


def run_page(page: Path, extra: str = "") -> None:
    """Run the commands and the Python of a page in the working folder, with the blocks that need an `extra`."""
    namespace: dict[str, object] = {"__name__": page.stem}
    for language, rest, text in blocks(page):
        if rest.startswith("file="):
            Path(rest.removeprefix("file=")).write_text(text, encoding="utf-8")
        elif language == "console" and rest in {"", extra}:  # tests/test_extend_it.py runs those that say `installed`
            for command in commands(text):
                if command.line.startswith("clustersim "):
                    run(command)
        elif language == "python" and rest in {"", extra}:
            exec(compile(text, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_files_and_names_that_contributing_follows_exist() -> None:
    """A code file of clustersim is named from `clustersim/` on; names in brackets after it are defined in it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)`(?:\s+\(`(\w+)`\))?", text)
    assert len(named) > 30
    for name, inside in named:
        path = ROOT / name if name.startswith("tests/") else ROOT / "clustersim" / name
        path = path if path.exists() else ROOT / "clustersim" / "network" / name
        assert path.exists(), name
        assert inside in path.read_text(encoding="utf-8"), (name, inside)


def test_shell_commands_that_are_not_ours_are_known() -> None:
    allowed = {"make", "git", "cd", "pip", "python", "vizviewer"}
    for page in PAGES:
        for language, _, text in blocks(page):
            for command in commands(text) if language == "console" else []:
                assert shlex.split(command.line)[0] in {"clustersim", *allowed}, (page, command.line)


def test_options_of_commands_that_are_not_run_exist() -> None:
    every = typer.main.get_command(app)
    for page in PAGES:
        for language, _, text in blocks(page):
            for line in text.replace("\\\n", " ").splitlines() if language in {"sh", "bash"} else []:
                words = shlex.split(line.partition("clustersim ")[2], comments=True)
                command, names = every, iter(words)
                while (inner := getattr(command, "commands", {}).get(next(names, ""))) is not None:
                    command = inner
                known = {name for each in command.params for name in each.opts}
                given = {word.partition("=")[0] for word in words if re.match("--[a-z]", word)} - {"--help"}
                assert given <= known, (page, line)


def test_make_targets_on_the_pages_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for page in PAGES for target in re.findall(r"\bmake ([\w-]+)", page.read_text(encoding="utf-8"))}
    assert {name for name in named if name in {"demo", "reference"} or name.startswith("test")} <= targets


def generator() -> ModuleType:
    return load_script(ROOT / "docs" / "generate.py")


def test_generated_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name, text in generator().pages().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, "run `make reference`"
