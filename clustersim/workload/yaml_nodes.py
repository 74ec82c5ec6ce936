"""A YAML file as nodes that know their place, built event by event: a hostile file costs no more than its size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake

MAX_BYTES = 1_000_000
MAX_DEPTH = 40

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # where YAML counts a line
_SHOWN_COLUMNS = 160
_NULLS = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True)
class Node:
    """A scalar's text, a list's items or a map's pairs; a null has none of them. Places count from 1."""

    line: int
    column: int
    text: str | None = None
    items: tuple[Node, ...] | None = None
    pairs: tuple[tuple[Node, Node], ...] | None = None

    @property
    def is_null(self) -> bool:
        return self.text is None and self.items is None and self.pairs is None


class YamlFile:
    """A file of one YAML document; `root` is its top node, a null where it is empty.

    What cannot be read is an `InputError`: a folder, a file that is missing, too large or no text, broken
    YAML, a tag, an alias of nothing, a second document.
    """

    def __init__(self, path: str | Path):
        self.file = str(path)
        text = _read_text(Path(path))
        self.lines = _LINE_BREAK.split(text)
        self._anchors: dict[str, Node] = {}
        self._events = self._parse(text)
        self.root = self._document()

    def mistake(
        self, message: str, key: str | None, node: Node | None, got: str | None = None, allowed: str | None = None
    ) -> Mistake:
        """Return a mistake that stands at a node."""
        if node is None:
            return Mistake(message, key or None, self.file, got=got, allowed=allowed)
        shown = self.lines[node.line - 1] if node.line <= len(self.lines) and node.column <= _SHOWN_COLUMNS else None
        shown = shown[:_SHOWN_COLUMNS] if shown is not None else None
        return Mistake(message, key or None, self.file, node.line, node.column, got, allowed, shown)

    def _refuse(self, message: str, mark: Any) -> InputError:
        node = Node(mark.line + 1, mark.column + 1) if mark is not None else None
        return InputError(self.mistake(f"this is not YAML as it is read here: {message}", None, node))

    def _parse(self, text: str) -> Iterator[Any]:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            yield from YAML(typ="safe", pure=True).parse(text)
        except MarkedYAMLError as error:
            raise self._refuse(error.problem or error.context or "broken", error.problem_mark) from None
        except (YAMLError, ValueError, OverflowError) as error:
            raise self._refuse(str(error).partition("\n")[0], None) from None

    def _document(self) -> Node:
        root = None
        for event in self._events:
            if type(event).__name__ in ("StreamStartEvent", "StreamEndEvent", "DocumentStartEvent", "DocumentEndEvent"):
                continue
            if root is not None:
                raise self._refuse("a second document", event.start_mark)
            root = self._node(event, 0)
        return root or Node(1, 1)

    def _node(self, event: Any, depth: int) -> Node:
        kind = type(event).__name__
        if depth > MAX_DEPTH:
            raise self._refuse(f"nested more than {MAX_DEPTH} levels deep", event.start_mark)
        if kind == "AliasEvent":
            if event.anchor not in self._anchors:
                raise self._refuse(f"nothing is called '&{event.anchor}' before this", event.start_mark)
            return self._anchors[event.anchor]
        if event.tag is not None:
            raise self._refuse(f"the tag '{event.tag}'; write the value alone", event.start_mark)
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if kind == "MappingStartEvent":
            children = tuple(self._children("MappingEndEvent", depth))
            node = Node(line, column, pairs=tuple(zip(children[::2], children[1::2], strict=True)))
        elif kind == "SequenceStartEvent":
            node = Node(line, column, items=tuple(self._children("SequenceEndEvent", depth)))
        else:
            null = event.style is None and event.value in _NULLS
            node = Node(line, column, text=None if null else event.value)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _children(self, end: str, depth: int) -> Iterator[Node]:
        while type(event := next(self._events)).__name__ != end:
            yield self._node(event, depth + 1)


def _read_text(path: Path) -> str:
    try:
        if path.is_dir():
            reason = "this is a folder, not a workload file"
        elif path.stat().st_size > MAX_BYTES:
            reason = f"too large for a workload file; at most {MAX_BYTES:,} bytes"
        else:
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        reason = "this is not a text file in UTF-8"
    except (OSError, ValueError) as error:
        reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise InputError(Mistake(reason, file=str(path)))
