"""Reads YAML 1.2 text as a tree with places, one event at a time, so that nothing exceeds its limits.

Some YAML that is legal is a mistake here: a key given twice, a tag, a number that is not finite, a second
document.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from clustersim.errors import InputError, Mistake
from clustersim.reading.tree import LIMITS, MAX_DEPTH, Limits, Place, TreeNode, check_extent

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = ("str", "int", "float", "bool", "null", "map", "seq")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_LARGEST = 2**63 - 1

_PLAIN_WORDS = (
    ("'\\t'", "a tab; YAML is indented with spaces"),
    ("cannot start any token", "a character that cannot start a value; put quotes around the text"),
    (
        "mapping values are not allowed",
        "a ':' that does not belong here; give the line above the same indentation, or put quotes around the text",
    ),
    ("expected <block end>", "this line has another indentation than the ones above it"),
    ("could not find expected ':'", "this line is not a 'key: value'"),
    ("expected the node content", "a value is missing here; is a '[' or a '{' never closed?"),
    ("unexpected end of stream", "a quote that is never closed"),
    ("expected ',' or ']'", "a '[' that is never closed with ']'"),
    ("expected ',' or '}'", "a '{' that is never closed with '}'"),
    ("special characters are not allowed", "a control character; is this a text file?"),
)


_PLACED_AT_START = ("unexpected end of stream", "expected ',' or", "could not find expected ':'")
_ESCAPE = re.compile(r"\\U([0-9A-Fa-f]{8})")


def read_yaml(
    text: str, file: str | None, positions: bool = True, limits: Limits = LIMITS, typed: bool = True
) -> tuple[TreeNode, list[Mistake]]:
    """Return the tree of one YAML document and the mistakes that do not stop reading.

    Broken syntax raises an `InputError` with its line; the tree of an empty document is a null. Without `typed`,
    scalars stay as written, or null.
    """
    read = _read if len(text) > _MOST_KEPT else _read_once
    node, mistakes = read(text, file, positions, limits, typed)
    return node, list(mistakes)


_MOST_KEPT = 1 << 16


def _read(
    text: str, file: str | None, positions: bool, limits: Limits, typed: bool
) -> tuple[TreeNode, tuple[Mistake, ...]]:
    reader = _Reader(text, file, positions, limits.num_events, typed)
    node = reader.document()
    check_extent(node, limits.num_values)
    return node, tuple(reader.mistakes)


_read_once = lru_cache(maxsize=256)(_read)
"""`_read` with a cache, for texts that are read often: sheets, scenarios that others extend, values of overrides."""


class _Reader:
    """Converts YAML events to nodes."""

    def __init__(self, text: str, file: str | None, positions: bool, num_events: int, typed: bool):
        from ruamel.yaml import YAML

        self.typed = typed
        self.num_events = num_events
        self.file = file
        self.positions = positions
        self.lines = _LINE_BREAK.split(text)
        self.mistakes: list[Mistake] = []
        self.anchors: dict[str, TreeNode] = {}
        self.yaml = YAML(typ="safe", pure=True)
        self.events = self._events(text)

    def _events(self, text: str) -> Iterator[Any]:
        from ruamel.yaml.error import YAMLError

        try:
            for count, event in enumerate(self.yaml.parse(text)):
                if count > self.num_events:
                    place = self.place(event.start_mark)
                    raise InputError(
                        place.mistake(f"too many values; a file may have at most about {self.num_events // 2:,}")
                    )
                yield event
        except YAMLError as error:
            raise InputError(self.syntax_mistake(error)) from None
        except InputError:
            raise
        except (ValueError, OverflowError):  # ruamel does not check that an escape is a valid character
            position = next(
                (found.start() for found in _ESCAPE.finditer(text) if int(found[1], 16) > sys.maxunicode), 0
            )
            raise InputError(
                self.place(_Mark(self.lines, position)).mistake("this escape is not a valid character")
            ) from None

    def place(self, mark: Any) -> Place:
        if not self.positions or mark is None:
            return Place(self.file)
        line = self.lines[mark.line] if mark.line < len(self.lines) else None
        return Place(self.file, mark.line + 1, mark.column + 1, line)

    def syntax_mistake(self, error: Any) -> Mistake:
        """Return the parser's error as a mistake at its place, in plain words."""
        problem = " ".join(str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).split())
        mark = getattr(error, "problem_mark", None)
        if any(sign in problem for sign in _PLACED_AT_START):
            mark = getattr(error, "context_mark", None) or mark
        if mark is None and isinstance(getattr(error, "position", None), int):
            mark = _Mark(self.lines, error.position)
        words = next((words for sign, words in _PLAIN_WORDS if sign in problem), f"this is not YAML: {problem}")
        return self.place(mark).mistake(words)

    def document(self) -> TreeNode:
        """Return the only document of the stream."""
        root: TreeNode | None = None
        for event in self.events:
            name = type(event).__name__
            if name in ("StreamStartEvent", "StreamEndEvent", "DocumentStartEvent", "DocumentEndEvent"):
                continue
            if root is not None:
                raise InputError(
                    self.place(event.start_mark).mistake("a second document; a file has one, so remove the '---'")
                )
            root = self.node(event, 0)
        return root or TreeNode(None, Place(self.file))

    def node(self, event: Any, depth: int) -> TreeNode:
        """Return the value that starts with an event; refuse too deep nesting and unknown aliases."""
        place = self.place(event.start_mark)
        name = type(event).__name__
        if depth > MAX_DEPTH:
            raise InputError(place.mistake(f"nested more than {MAX_DEPTH} levels deep; use fewer levels"))
        if name == "AliasEvent":
            if event.anchor not in self.anchors:
                raise InputError(
                    place.mistake(f"'*{event.anchor}' has no '&{event.anchor}' before it", got=f"*{event.anchor}")
                )
            return self.anchors[event.anchor]
        if (
            event.tag is not None
            and str(event.tag) not in {_TAG + tag for tag in _PLAIN_TAGS}
            and str(event.tag) != "!"
        ):
            self.mistakes.append(
                place.mistake(f"a tag ('{event.tag}'); write the value without it", got=str(event.tag))
            )
        if name == "MappingStartEvent":
            made = self.mapping(place, depth)
        elif name == "SequenceStartEvent":
            made = self.sequence(place, depth)
        else:
            made = self.scalar(event, place)
        if event.anchor is not None:
            self.anchors[event.anchor] = made
        return made

    def sequence(self, place: Place, depth: int) -> TreeNode:
        """Return the list after its start event."""
        elements = []
        while type(event := next(self.events)).__name__ != "SequenceEndEvent":
            elements.append(self.node(event, depth + 1))
        return TreeNode(elements, place)

    def mapping(self, place: Place, depth: int) -> TreeNode:
        """Return the map after its start event; note keys that are given twice."""
        children: dict[str, TreeNode] = {}
        merged: list[TreeNode] = []
        while type(event := next(self.events)).__name__ != "MappingEndEvent":
            key_place = self.place(event.start_mark)
            if type(event).__name__ != "ScalarEvent":
                raise InputError(key_place.mistake("a key must be plain text; write 'key: value'"))
            key = event.value
            child = replace(self.node(next(self.events), depth + 1), key_place=key_place)
            if key == "<<" and event.implicit[0]:
                merged += child.value if isinstance(child.value, list) else [child]
            elif key in children:
                first = children[key].key_place
                where = f" (first in line {first.line})" if first is not None and first.line is not None else ""
                self.mistakes.append(key_place.mistake(f"the key is given twice{where}; keep one", key=key, got=key))
            else:
                children[key] = child
        return TreeNode(self.with_merged(children, merged), place)

    def with_merged(self, children: dict[str, TreeNode], merged: list[TreeNode]) -> dict[str, TreeNode]:
        """Add the keys of `<<: *anchor`; a map's own keys win, then those of earlier maps."""
        for source in merged:
            if not isinstance(source.value, dict):
                self.mistakes.append(source.place.mistake("'<<' merges maps only"))
            for key, child in source.children.items():
                children.setdefault(key, child)
        return children

    def scalar(self, event: Any, place: Place) -> TreeNode:
        """Return a scalar with its type, or as text; note an invalid number."""
        text: str = event.value
        tag = str(event.tag) if event.tag is not None else self.resolve(event)
        if not self.typed:
            return TreeNode(None if tag == f"{_TAG}null" else text, place)
        try:
            return TreeNode(_value(text, tag.removeprefix(_TAG)), place)
        except (ValueError, OverflowError) as error:
            shown = text if len(text) <= 60 else f"{text[:57]}..."
            self.mistakes.append(place.mistake(f"{error} (got {shown})", got=shown))
            return TreeNode(text, place)

    def resolve(self, event: Any) -> str:
        from ruamel.yaml.nodes import ScalarNode

        if not event.implicit[0]:
            return f"{_TAG}str"
        return str(self.yaml.resolver.resolve(ScalarNode, event.value, event.implicit))


class _Mark:
    """The line and column of a character, counted from 0, from its position in the text."""

    def __init__(self, lines: list[str], position: int):
        self.line, self.column = 0, position
        while self.line < len(lines) and self.column > len(lines[self.line]):
            self.column -= len(lines[self.line]) + 1
            self.line += 1


def _value(text: str, kind: str) -> Any:
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("true", "yes", "on", "y")
    if kind == "int":
        return _integer(text.replace("_", ""))
    if kind == "float":
        return _finite(text.replace("_", ""))
    return text


def _integer(text: str) -> int:
    if len(text) > 30:
        raise ValueError(f"a whole number must be at most {_LARGEST}")
    try:
        value = int(text, 0) if text.lstrip("+-").lower().startswith(("0x", "0o", "0b")) else int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None
    if abs(value) > _LARGEST:
        raise ValueError(f"a whole number must be at most {_LARGEST}")
    return value


def _finite(text: str) -> float:
    if text.lstrip("+-").lower() in (".inf", ".nan"):
        raise ValueError("a number must be finite")
    try:
        value = float(text)
    except ValueError:
        raise ValueError("expected a number") from None
    if not math.isfinite(value):
        raise ValueError("a number must be finite")
    return value
