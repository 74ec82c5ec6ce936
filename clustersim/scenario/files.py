"""Finds and reads the files of a scenario, whatever they turn out to be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from clustersim.data import shipped_files
from clustersim.errors import InputError, Mistake
from clustersim.scenario.tree import Node, Place, merge
from clustersim.scenario.yaml_reader import read_yaml

MAX_BYTES = 1 << 20
MAX_FILES = 50
_SUFFIXES = (".yaml", ".yml", ".json")


def looks_like_path(text: str) -> bool:
    """Return whether a user means a file and not a short name.

    >>> looks_like_path("titan"), looks_like_path("my/titan"), looks_like_path("titan.yaml")
    (False, True, True)
    """
    return "/" in text or os.sep in text or text.lower().endswith(_SUFFIXES)


def find_file(name: str, folder: str, what: str, beside: Path | None = None) -> Path:
    """Return the file a user means: a path (from `beside`, else from here) or the short name of a shipped one.

    `folder` is where the shipped ones lie (`scenarios`, `topologies`), `what` what such a file is called.
    """
    if "\0" in name or not name.strip():
        raise InputError(f"no {what} can be called {name[:60]!r}", got=repr(name[:60]))
    path = (beside or Path()) / Path(name).expanduser()
    shipped = shipped_files(folder)
    if _exists(path) and not (path.is_dir() and name in shipped):
        return path
    if name in shipped:
        return shipped[name]
    near = get_close_matches(Path(name).stem, shipped, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    known = ", ".join(shipped)
    raise InputError(
        f"there is no file '{name[:200]}' and no {what} of that name{hint} (known: {known})",
        got=name[:200],
        allowed=known,
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def read_text(path: Path) -> str:
    """Return the text of a file a person could have written: UTF-8, at most 1 MiB, no binary."""
    place = Place(str(path))
    try:
        if path.is_dir():
            raise InputError(place.mistake("this is a directory; name a file in it"))
        if not path.is_file():
            raise InputError(place.mistake("this is not a regular file"))
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(place.mistake(f"cannot be read: {error.strerror or error}")) from None
    if len(data) > MAX_BYTES:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        raise InputError(
            place.mistake(f"the file is too large ({size}); 1 MiB at most", got=size, allowed="1 MiB at most")
        )
    return _decoded(data, place)


def _decoded(data: bytes, place: Place) -> str:
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


def read_map(path: Path, what: str) -> tuple[Node, list[Mistake]]:
    """Return the tree of a YAML file whose top level is a map, and its lesser mistakes."""
    root, mistakes = read_yaml(read_text(path), str(path))
    if root.value is None:
        raise InputError(Place(str(path)).mistake(f"the file is empty; a {what} is a list of 'key: value' lines"))
    if not isinstance(root.value, dict):
        got = "a list" if isinstance(root.value, list) else f"'{str(root.value)[:60]}'"
        raise InputError(
            root.place.mistake(f"a {what} is a list of 'key: value' lines (got {got})", got=got, allowed="key: value")
        )
    return root, mistakes


@dataclass
class _Reading:
    """One reading of a scenario with all it extends."""

    mistakes: list[Mistake] = field(default_factory=list)
    num_files: int = 0

    def tree(self, path: Path, open_files: tuple[Path, ...]) -> Node:
        self.num_files += 1
        root, mistakes = read_map(path, "scenario")
        self.mistakes += mistakes
        extends = root.children.get("extends")
        if extends is None:
            return root
        base: Node | None = None
        for element in extends.value if isinstance(extends.value, list) else [extends]:
            part = self.extended(element, path, (*open_files, path.resolve()))
            base = part if base is None else merge(base, part)
        own = root.with_value({key: child for key, child in root.children.items() if key != "extends"})
        return own if base is None else merge(base, own)

    def extended(self, element: Node, path: Path, open_files: tuple[Path, ...]) -> Node:
        if not isinstance(element.value, str):
            got = str(element.plain())[:60]
            message = f"expected a scenario's name or file (got {got})"
            raise InputError(element.place.mistake(message, "extends", got, "a name or a file"))
        with named_by(element, "extends"):
            found = find_file(element.value, "scenarios", "scenario", path.parent)
            if found.resolve() in open_files:
                chain = " -> ".join(file.name for file in (*open_files, found))
                raise InputError(f"a scenario cannot extend itself ({chain})", got=element.value)
            if self.num_files >= MAX_FILES:
                raise InputError(f"more than {MAX_FILES} files are extended; merge some", got=element.value)
            return self.tree(found, open_files)


@contextmanager
def named_by(node: Node, key: str) -> Iterator[None]:
    """Tell mistakes that have no line of their own where a value names the file, or nothing, that has them."""
    try:
        yield
    except InputError as error:
        raise InputError([node.place.told(mistake, key) for mistake in error.mistakes]) from None


def read_scenario(path: Path) -> tuple[Node, list[Mistake]]:
    """Return the tree of a scenario file with everything it extends merged in, and its lesser mistakes.

    `extends` is a file (as seen from this one) or a shipped name, or a list of them where the later wins;
    what the file says itself wins over all. Every value keeps the place it was written at.
    """
    reading = _Reading()
    root = reading.tree(path, ())
    return root, reading.mistakes
