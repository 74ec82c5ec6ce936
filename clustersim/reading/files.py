"""Finds and reads files written by users."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from clustersim.common_words import hint_for_name
from clustersim.data import shipped_files
from clustersim.errors import InputError, Mistake, known_names, nearest
from clustersim.reading.tree import LIMITS, Limits, Place, TreeNode
from clustersim.reading.yaml_reader import read_yaml

_MOST_NAMES = 5
_SUFFIXES = (".yaml", ".yml", ".json")


def looks_like_path(text: str) -> bool:
    """Return whether a text is a path and not a short name.

    >>> looks_like_path("titan"), looks_like_path("my/titan"), looks_like_path("titan.yaml")
    (False, True, True)
    """
    return "/" in text or os.sep in text or text.lower().endswith(_SUFFIXES)


def find_file(name: str, folder: str, what: str, beside: Path | None = None) -> Path:
    """Return the path of a file, given as a path (relative to `beside`, else to the working directory) or a short name.

    `folder` contains the shipped files (`scenarios`, `topologies`); `what` names such a file in messages.
    """
    if "\0" in name or not name.strip():
        raise InputError(f"this is not the name of a {what} (got {name[:60]!r})", got=repr(name[:60]))
    path = (beside or Path()) / Path(name).expanduser()
    shipped = shipped_files(folder)
    if exists(path) and not (path.is_dir() and name in shipped):
        return path
    if name in shipped:
        return shipped[name]
    meaning = hint_for_name(what, Path(name).name)
    hint = f"; {meaning}" if meaning else _did_you_mean(Path(name).stem.lower(), shipped)
    known = known_names(what, Path(name).stem, [*shipped])
    raise InputError(
        f"there is no file '{name[:200]}' and no {what} of that name{hint} ({known})",
        got=name[:200],
        allowed=", ".join(shipped),
    )


def _did_you_mean(stem: str, shipped: Mapping[str, Path]) -> str:
    """Return the shipped names that begin with what was asked for, else the nearest one, as the end of a message."""
    begun = [name for name in shipped if name.startswith(f"{stem}-")][:_MOST_NAMES]
    near = begun or [each for each in [nearest(stem, [*shipped])] if each]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def exists(path: Path) -> bool:
    """Return whether a path exists; false for what cannot be a path."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def read_text(path: Path, num_bytes: int = LIMITS.num_bytes) -> str:
    """Return the text of a file: UTF-8, at most `num_bytes`, not binary."""
    place = Place(str(path))
    try:
        if path.is_dir():
            raise InputError(place.mistake("this is a directory; name a file in it"))
        if not path.is_file():
            reason = "this is not a regular file" if path.exists() else "cannot be read: No such file or directory"
            raise InputError(place.mistake(reason))
        with path.open("rb") as stream:
            data = stream.read(num_bytes + 1)
    except OSError as error:
        raise InputError(place.mistake(f"cannot be read: {error.strerror or error}")) from None
    if len(data) > num_bytes:
        size, most = f"{path.stat().st_size / 1e6:.1f} MB", _most(num_bytes)
        raise InputError(place.mistake(f"the file is too large ({size}); {most}", got=size, allowed=most))
    return decoded(data, str(path))


def _most(num_bytes: int) -> str:
    whole, rest = divmod(num_bytes, 1 << 20)
    return f"{num_bytes >> 10} KiB at most" if rest else f"{whole} MiB at most"


def decoded(data: bytes, file: str) -> str:
    """Return the text of a file's bytes: UTF-8, not binary."""
    place = Place(file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        where = Place(place.file, line)
        raise InputError(
            where.mistake("this is not text in UTF-8; is it a binary file?", got=f"byte {data[error.start]:#04x}")
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(Place(place.file, line).mistake("a NUL character; this is a binary file", got="NUL"))
    return text


def read_map(path: Path, what: str, limits: Limits = LIMITS) -> tuple[TreeNode, list[Mistake]]:
    """Return the tree of a YAML file whose top level is a map, and the mistakes that do not stop reading."""
    root, mistakes = read_yaml(read_text(path, limits.num_bytes), str(path), limits=limits)
    if root.value is None:
        raise InputError(Place(str(path)).mistake(f"the file is empty; a {what} is a list of 'key: value' lines"))
    if not isinstance(root.value, dict):
        got = "a list" if isinstance(root.value, list) else f"'{str(root.value)[:60]}'"
        raise InputError(
            root.place.mistake(f"a {what} is a list of 'key: value' lines (got {got})", got=got, allowed="key: value")
        )
    return root, mistakes


@contextmanager
def named_by(node: TreeNode, key: str) -> Iterator[None]:
    """Place mistakes without a line of their own at the value that names their file."""
    try:
        yield
    except InputError as error:
        raise InputError([node.place.located(mistake, key) for mistake in error.mistakes]) from None


_FILE_SUFFIXES = (".yaml", ".yml", ".json", ".json.gz", ".csv", ".py")
_FILES = ("collectives",)  # keys of files with any ending
_FOLDERS = ("folder",)  # keys of folders
_NAMED = "software"  # key of a name or a file, or of a map that has it as its `name`
_WORDS = ("name", "description", "$schema", "source", "note", "extends")


def with_files(node: TreeNode, key: str = "") -> TreeNode:
    """Return the tree with every path relative to its file made relative to the working directory."""
    if isinstance(node.value, dict):
        named = key == _NAMED
        return node.with_value(
            {name: with_files(child, key if named and name == "name" else name) for name, child in node.value.items()}
        )
    if isinstance(node.value, list):
        return node.with_value([with_files(child, key) for child in node.value])
    if (
        key in _WORDS
        or not isinstance(node.value, str)
        or not (node.value.endswith(_FILE_SUFFIXES) or key in (*_FILES, *_FOLDERS))
        or node.place.line is None
    ):
        return node
    path = Path(node.place.file or "").parent / node.value
    is_there = "\0" not in node.value and (path.is_dir() if key in _FOLDERS else path.is_file())
    return node.with_value(str(path)) if is_there else node
