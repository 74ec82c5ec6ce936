"""The files that a scenario names by their path: those must be in the entry's folder, so that they stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.reading.files import read_map
from clustersim.reading.tree import TreeNode

_SUFFIXES = (".yaml", ".yml", ".json", ".json.gz", ".csv")
_YAML = (".yaml", ".yml")
_WORDS = ("name", "description", "$schema", "source", "note")


def named_files(scenario: Path, folder: Path) -> dict[str, Path]:
    """Return the files in `folder` that a scenario names, and those that they name, by path relative to it.

    A file outside the folder is refused: it could change. Shipped names are not paths, and are not returned.
    """
    found: dict[str, Path] = {}
    mistakes: list[Mistake] = []
    open_files = [scenario]
    while open_files:
        for node, path in _named_in(open_files.pop()):
            if not path.resolve().is_relative_to(folder.resolve()):
                message = "an entry holds all its files; copy this one into its folder, or give a shipped name"
                mistakes.append(node.place.mistake(message, got=str(node.value), allowed=f"a file in {folder}"))
                continue
            name = path.resolve().relative_to(folder.resolve()).as_posix()
            if name not in found and path.resolve() != scenario.resolve():
                found[name] = path
                open_files.append(path)
    if mistakes:
        raise InputError(mistakes)
    return found


def _named_in(path: Path) -> Iterator[tuple[TreeNode, Path]]:
    """Yield the values of a YAML file that are paths of files, relative to it, and each file."""
    if path.suffix not in _YAML:
        return
    try:
        root, _ = read_map(path, "file")
    except InputError:  # reported when the point is simulated
        return
    for node in _texts(root, ""):
        named = path.parent / Path(node.value).expanduser()
        if "\0" not in node.value and node.value.endswith(_SUFFIXES) and named.is_file():
            yield node, named


def _texts(node: TreeNode, key: str) -> Iterator[TreeNode]:
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            yield from _texts(child, name)
    elif isinstance(node.value, list):
        for child in node.value:
            yield from _texts(child, key)
    elif isinstance(node.value, str) and key not in _WORDS:
        yield node
