"""The tree of a file: every value with its place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np

from clustersim.errors import InputError, Mistake

MAX_DEPTH = 40
_SHOWN_COLUMNS = 160

Path = tuple[str | int, ...]
"""The path from the top of the tree to a value: keys of maps and numbers of list elements."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum size of a file, so that no file fills the memory; an event takes about 0.1 ms to read.

    `num_events` is the limit of the text: a value is one event, a map or a list is two. `num_values` is the limit of
    the tree, where the values of an alias count each time.
    """

    num_bytes: int = 1 << 20
    num_events: int = 50_000
    num_values: int = 200_000


LIMITS = Limits()
"""The limits of a file that is written by hand."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value in a file; `line` and `column` count from 1."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    source_line: str | None = None

    def mistake(
        self, message: str, key: str | None = None, got: str | None = None, allowed: str | None = None
    ) -> Mistake:
        """Return a mistake at this place; a source line that is too long is left out."""
        shown = None
        if self.source_line is not None and self.column is not None and self.column <= _SHOWN_COLUMNS:
            shown = "".join(char if char.isprintable() else " " for char in self.source_line[:_SHOWN_COLUMNS])
        return Mistake(message, key, self.file, self.line, self.column, got, allowed, shown)

    def located(self, mistake: Mistake, key: str | None) -> Mistake:
        """Return a mistake moved to this place; if it has its own line, add that this place names its file."""
        if mistake.line is not None:
            if self.line is None or mistake.file == self.file:
                return replace(mistake, named_by=mistake.named_by or key)
            here = f"{self.file}:{self.line}:{self.column}"
            return replace(mistake, message=f"{mistake.message} (in the file that {here} names: {key})", named_by=None)
        message = str(mistake) if mistake.file else mistake.message
        return replace(
            self.mistake(message, key, mistake.got, mistake.allowed),
            needed_bytes=mistake.needed_bytes,
            available_bytes=mistake.available_bytes,
            remedy=mistake.remedy,
        )


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A scalar, a map or a list, and its place. `key_place` is the place of its key in a map."""

    value: Any  # a scalar, dict[str, Node] or list[Node]
    place: Place
    key_place: Place | None = None

    @property
    def children(self) -> dict[str, TreeNode]:
        """The nodes of a map by key; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def items(self) -> Iterator[tuple[str | int, TreeNode]]:
        """Yield the keys of a map or the numbers of a list, each with its node."""
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            yield from enumerate(self.value)

    def child(self, key: str | int) -> TreeNode | None:
        """Return the node of a key or a number, None if there is none."""
        if isinstance(self.value, dict):
            return self.value.get(key)
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            found: TreeNode = self.value[key]
            return found
        return None

    def at(self, path: Path) -> TreeNode | None:
        """Return the node at a path, None if there is none."""
        node: TreeNode | None = self
        for key in path:
            node = node.child(key) if node is not None else None
        return node

    def with_value(self, value: Any) -> TreeNode:
        """Return this node with another value, at the same place."""
        return replace(self, value=value)

    def put(self, path: Path, node: TreeNode) -> TreeNode:
        """Return this tree with another node at a path whose parents exist."""
        if not path:
            return replace(node, key_place=self.key_place or node.key_place)
        old = self.child(path[0])
        new = old.put(path[1:], node) if old is not None else node
        if isinstance(self.value, dict):
            return self.with_value({**self.value, path[0]: new})
        return self.with_value([new if number == path[0] else element for number, element in enumerate(self.value)])

    def plain(self) -> Any:
        """Return the values without places, as plain maps, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def dotted(path: Path) -> str:
    """Return a path as text.

    >>> dotted(("stragglers", 0, "cv"))
    'stragglers.0.cv'
    """
    return ".".join(str(key) for key in path)


def check_extent(root: TreeNode, num_values: int = LIMITS.num_values) -> None:
    """Refuse a tree that is too deep or too large; the values of an alias count each time."""
    visits, waiting = 0, [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        visits += 1
        if depth > MAX_DEPTH:
            raise InputError(node.place.mistake(f"nested more than {MAX_DEPTH} levels deep; use fewer levels"))
        if visits + len(waiting) > num_values:
            limit = f"at most {num_values:,} values, including those that an alias (*name) repeats"
            raise InputError(root.place.mistake(f"too many values; a file may have {limit}", allowed=limit))
        waiting.extend((child, depth + 1) for _, child in node.items())


def from_python(value: Any, key: str | None = None, depth: int = 0) -> TreeNode:
    """Return the tree of a Python mapping, sequence or scalar; its values have no place."""
    if depth > MAX_DEPTH:
        raise InputError(Mistake(f"nested more than {MAX_DEPTH} levels deep; use fewer levels", key))
    if isinstance(value, Mapping):
        return TreeNode({str(name): from_python(child, str(name), depth + 1) for name, child in value.items()}, Place())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return TreeNode([from_python(child, key, depth + 1) for child in value], Place())
    return TreeNode(_scalar(value, key), Place())


def _scalar(value: Any, key: str | None) -> Any:
    """Return a scalar of YAML: numpy numbers and paths are converted."""
    plain = value.item() if isinstance(value, np.generic) else str(value) if isinstance(value, PurePath) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        raise InputError(Mistake(f"a number must be finite (got {plain})", key, got=str(plain)))
    if plain is None or isinstance(plain, str | int | float):
        return plain
    got = type(value).__name__
    raise InputError(Mistake(f"expected text, a number, a list or a map (got {got})", key, got=got))
