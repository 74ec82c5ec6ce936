"""One language: words that this project once had for things that the field calls otherwise stay out.

Only whole words count, in code, comments, docstrings, messages and pages.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

OLD_WORDS = {
    "crew": "LayoutExecutor, ranks",
    "march(es|ed|ing)?(?! 20)(?! [0-9])": "VectorizedWorkers; run synchronously",
    "desk": "Rendezvous",
    "diary": "TraceRecorder",
    "laps?": "micro-batch cycle",
    "twins?": "isomorphic routes",
    "conveyors?": "CopyQueue",
    "agenda": "EventQueue",
    "unison": "lockstep",
    "(plain|compiled) side": "PythonEngine, NumbaEngine",
    "spells?": "run-length encoded schedule; slow period",
    "outbox": "BucketSender",
    "easily missed": "note",
    "training share": "GEMM derating",
    "taking in": "receive cost",
    "whoever": "any rank, any worker",
    "of whom": "two sentences",
    "that which": "what",
    "some such": "",
    "as it were": "",
    "comes? of it": "results",
    "luck": "random draws, seed",
    "way of synchronising": "parallelism strategy",
    "(no|any|some)body": "no rank, a user, another package",
}
"""Patterns of whole words, in lower case, and what to say."""

_WORD = re.compile(r"\b(" + "|".join(OLD_WORDS) + r")\b")


def texts() -> Iterator[Path]:
    """Yield every file whose words are ours: code, pages, scenarios. Case files quote their sources."""
    tracked = subprocess.run(
        ["git", "ls-files", "clustersim", "docs", "scenarios", "topologies", "*.md", "Makefile"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".yaml"} and not name.startswith(("validate/", "docs/validation")):
            yield path


def test_old_words_stay_out() -> None:
    found = []
    for path in texts():
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word in _WORD.findall(line):
                text = word if isinstance(word, str) else word[0]
                found.append(f"{name}:{number}: '{text}'")
    assert not found, f"{len(found)} old words:\n" + "\n".join(found[:60])


@pytest.mark.parametrize("pattern", OLD_WORDS)
def test_every_pattern_is_one_of_whole_words_in_lower_case(pattern: str) -> None:
    assert pattern == pattern.lower()
    assert re.compile(rf"\b{pattern}\b")


def test_a_public_class_has_a_name_of_its_own() -> None:
    """So that a name in a message, a docstring or an import means one thing."""
    homes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "clustersim").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
