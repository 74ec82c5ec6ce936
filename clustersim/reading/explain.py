"""Converts pydantic errors to mistakes for users: place, value, and allowed values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from clustersim.common_words import hint_for_key, hint_for_name, hint_for_word
from clustersim.errors import InputError, Mistake, hint_after, nearest, squashed, unknown_name
from clustersim.reading.shape import TAGS, field_of, known_keys, known_kinds, models_at, places_of
from clustersim.reading.tree import Path, Place, TreeNode, dotted

Loc = tuple[str | int, ...]

_EXPECTED: dict[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "dict_type": "a map of 'key: value'",
    "model_type": "a map of 'key: value'",
    "model_attributes_type": "a map of 'key: value'",
    "mapping_type": "a map of 'key: value'",
    "none_required": "nothing",
}

_EXAMPLES = {
    "batch": "{per_gpu: 32} or {global: 256}",
    "strategy": "{kind: all-reduce}",
    "parallelism": "{tensor: 8} or {sharding: zero-3}",
}
"""Maps that are often written as one value."""

_MOST_PLACES = 3
_TYPO = 0.85

_SWITCHES = {"True": "true", "False": "false"}
"""The only value of a switch that a member fixes, as YAML writes it."""

_BOUNDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda ctx: f"a number above {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"a number of at least {_number(ctx['ge'])}",
    "less_than": lambda ctx: f"a number below {ctx['lt']:g}",
    "less_than_equal": lambda ctx: f"a number of at most {_number(ctx['le'])}",
    "multiple_of": lambda ctx: f"a multiple of {ctx['multiple_of']:g}",
    "too_short": lambda ctx: f"a list of at least {ctx['min_length']}",
    "too_long": lambda ctx: f"a list of at most {ctx['max_length']}",
    "string_too_short": lambda ctx: f"text of at least {ctx['min_length']} characters",
    "string_too_long": lambda ctx: f"text of at most {ctx['max_length']} characters",
    "string_pattern_mismatch": lambda ctx: f"text of the form {ctx['pattern']}",
    "finite_number": lambda ctx: "a finite number",
    "literal_error": lambda ctx: _SWITCHES.get(ctx["expected"], f"one of {ctx['expected']}"),
    "enum": lambda ctx: f"one of {ctx['expected']}",
}


def _number(bound: float) -> str:
    """Return a bound as text, whole numbers with all their digits."""
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


@dataclass(frozen=True)
class Problem:
    """A mistake and the path of its value, which may not exist.

    `meant` is the path that an unknown key was probably meant for.
    """

    path: Path
    mistake: Mistake
    meant: Path | None = None


@dataclass(frozen=True)
class _Located:
    """One pydantic error: the path of its node or missing key, and the union branches on the way."""

    path: Path
    branches: tuple[tuple[Path, str], ...]
    error: Mapping[str, Any]

    @property
    def is_mismatch(self) -> bool:
        return self.error["type"] in _EXPECTED or self.error["type"] in ("literal_error", "enum")


@dataclass(frozen=True)
class _Wanted:
    """The model of a tree: see `explain`."""

    model: Any
    what: str


def explain(error: ValidationError, root: TreeNode, model: Any, what: str = "kind") -> list[Problem]:
    """Return every mistake of a validation, each with its place in the tree.

    `model` is the model of the tree, or a union of models with different `kind`; `what` names in messages what
    such a kind is of.
    """
    located = [_locate(root, details) for details in error.errors(include_url=False)]
    found = [problem for each in _condensed(located, root) for problem in _problems(each, root, _Wanted(model, what))]
    meant = {problem.meant for problem in found}  # a misspelt key is not also reported as missing
    return [problem for problem in found if problem.path not in meant or root.at(problem.path) is not None]


def got_text(value: Any) -> str:
    """Write a value for a message.

    >>> got_text("8x"), got_text(True), got_text([1, 2]), got_text({"a": 1})
    ("'8x'", 'true', 'a list', 'a map with a')
    """
    if isinstance(value, Mapping):
        return f"a map with {', '.join(list(value)[:6])}" if value else "an empty map"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return f"'{text}'" if isinstance(value, str) else text


def _locate(root: TreeNode, error: Mapping[str, Any]) -> _Located:
    """Follow a pydantic `loc` through the tree; a part that is not a key there names a branch of a union."""
    node, fresh = root, True
    path: Path = ()
    branches: list[tuple[Path, str]] = []
    loc: Loc = tuple(error["loc"])
    for number, part in enumerate(loc):
        if part == "[key]":  # the key itself is wrong
            continue
        child = node.child(part)
        if fresh and part in _tags(node):
            fresh = False  # the tag of a discriminated union
        elif child is not None:
            node, path, fresh = child, (*path, part), True
        elif number == len(loc) - 1 and error["type"] == "missing":
            path = (*path, part)
        else:
            branches.append((path, str(part)))
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path = (*path, "kind")
    return _Located(path, tuple(branches), error)


def _tags(node: TreeNode) -> list[object]:
    """Return the values in this map that select the branch of a discriminated union."""
    return [node.children[key].value for key in TAGS if key in node.children]


def _condensed(located: list[_Located], root: TreeNode) -> Iterable[list[_Located]]:
    """Yield groups of errors that are one mistake: a union reports every branch, and the user means one of them."""
    groups: dict[Path | int, list[_Located]] = {}
    for number, each in enumerate(located):
        groups.setdefault(each.branches[0][0] if each.branches else number, []).append(each)
    for start, group in groups.items():
        if isinstance(start, int):
            yield group
            continue
        branches: dict[str, list[_Located]] = {}
        for each in group:
            branches.setdefault(each.branches[0][1], []).append(_Located(each.path, each.branches[1:], each.error))
        meant = [branch for branch in branches.values() if not any(e.is_mismatch and e.path == start for e in branch)]
        deepest = max(meant, key=lambda branch: max(len(e.path) for e in branch), default=None)
        if deepest is not None:
            yield from _condensed(deepest, root)
        else:
            yield [each for branch in branches.values() for each in branch if each.path == start]


def _problems(same: list[_Located], root: TreeNode, wanted: _Wanted) -> Iterable[Problem]:
    if len(same) > 1 and all(each.is_mismatch for each in same):
        expected = " or ".join(dict.fromkeys(_expected(each.error) for each in same))
        yield _unexpected(same[0].path, root, expected, wanted)
        return
    for each in same:
        yield from _explained(each, root, wanted)


def _explained(each: _Located, root: TreeNode, wanted: _Wanted) -> Iterable[Problem]:
    kind, path = each.error["type"], each.path
    cause = each.error.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        for mistake in cause.mistakes:
            yield raised(mistake, path, root)
    elif each.error["loc"][-1:] == ("[key]",):
        yield _wrong_key(path, root, _expected(each.error))
    elif kind == "missing":
        yield _missing(path, root, wanted)
    elif kind == "extra_forbidden":
        yield _unknown_key(path, root, wanted)
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        yield _unknown_kind(path, root, wanted)
    elif kind in _EXPECTED or kind in _BOUNDS:
        yield _unexpected(path, root, _expected(each.error), wanted)
    else:
        message = str(cause or each.error["msg"])
        yield Problem(path, place_of(path, root).mistake(message, dotted(path) or None, _got(path, root)))


def raised(mistake: Mistake, path: Path, root: TreeNode) -> Problem:
    """Return a mistake that a validator raised, placed at its own key below `path` if that exists."""
    key = mistake.named_by if mistake.line is not None else mistake.key if mistake.file is None else None
    keys = key.split(".") if key else []
    full: Path = (*path, *(int(key) if key.isdecimal() else key for key in keys))
    placed = place_of(full, root).located(mistake, dotted(full) or None)
    is_complete = mistake.line is not None or placed.got is not None
    return Problem(full, placed if is_complete else replace(placed, got=_got(full, root)))


def place_of(path: Path, root: TreeNode) -> Place:
    """Return the place of the value at a path, or of its nearest parent."""
    for length in range(len(path), -1, -1):
        node = root.at(path[:length])
        if node is not None:
            whole = length == len(path) or node.key_place is None
            return node.place if whole or node.key_place is None else node.key_place
    return root.place


def _expected(error: Mapping[str, Any]) -> str:
    kind = error["type"]
    return _EXPECTED[kind] if kind in _EXPECTED else _BOUNDS[kind](error.get("ctx", {}))


def _got(path: Path, root: TreeNode) -> str | None:
    node = root.at(path)
    return got_text(node.plain()) if node is not None else None


def _unexpected(path: Path, root: TreeNode, expected: str, wanted: _Wanted) -> Problem:
    got, node = _got(path, root), root.at(path)
    hint = _hint(path, node, root, expected, wanted) if node is not None else ""
    message = f"expected {expected} (got {got}){hint}"
    return Problem(path, place_of(path, root).mistake(message, dotted(path) or None, got, expected))


def _hint(path: Path, node: TreeNode, root: TreeNode, expected: str, wanted: _Wanted) -> str:
    """Return what a wrong value is called here, as the end of a message; empty if that is not known."""
    key = str(path[-2] if path[-1] == "kind" and len(path) > 1 else path[-1]) if path else ""
    example = f"write {_EXAMPLES[key]}" if key in _EXAMPLES else None
    wants_map = expected == _EXPECTED["dict_type"]
    if isinstance(node.value, dict | list):
        return hint_after(example if wants_map else None, None)
    value = str(got_text(node.plain())).strip("'")
    meaning = hint_for_name(key, value)
    if wants_map and meaning is None:
        kind = _same_kind(value, known_kinds(models_at(wanted.model, root, path)))
        meaning = f"write {{kind: {kind}}}" if kind else _meaning(value, example)
    near = nearest(value, re.findall("'([^']+)'", expected))
    if path[-1:] == ("kind",) and meaning is None and near is None:  # a map that was written as one value
        meaning = _meaning(value, example)
    return hint_after(meaning, near)


def _same_kind(value: str, kinds: list[str]) -> str | None:
    """Return the kind whose name a value is, in another spelling maybe."""
    return next((kind for kind in kinds if squashed(kind) == squashed(value)), None)


def _meaning(value: str, example: str | None) -> str | None:
    """Return what a word, or the key of `key: value` in text, is called here; else how such a map is written."""
    return hint_for_word(value) or hint_for_word(re.split(r"[\s:=]", value)[0]) or example


def _wrong_key(path: Path, root: TreeNode, expected: str) -> Problem:
    node = root.at(path)
    place = node.key_place or node.place if node is not None else root.place
    got = str(path[-1])
    return Problem(path, place.mistake(f"expected {expected} (got '{got}')", dotted(path), got, expected))


def _missing(path: Path, root: TreeNode, wanted: _Wanted) -> Problem:
    fields = [field_of(parent, str(path[-1])) for parent in models_at(wanted.model, root, path[:-1])]
    meaning = next((field.description for field in fields if field is not None and field.description), None)
    message = "this key is missing" + (f": {meaning}" if meaning else "")
    return Problem(path, place_of(path, root).mistake(message, dotted(path), "nothing", meaning))


def _unknown_key(path: Path, root: TreeNode, wanted: _Wanted) -> Problem:
    node = root.at(path)
    place = node.key_place or node.place if node is not None else root.place
    key = str(path[-1])
    known = known_keys(models_at(wanted.model, root, path[:-1]))
    near = next(iter(get_close_matches(key.lower(), known, n=1)), None)
    spelt = next((each for each in known if squashed(each) == squashed(key)), None)
    typed = next(iter(get_close_matches(key.lower(), known, n=1, cutoff=_TYPO)), None)
    meaning = None if spelt else hint_for_key(key) or (None if typed else _elsewhere(path, wanted))
    allowed = ", ".join(known)
    message = f"there is no such key here{hint_after(meaning, spelt or near or nearest(key, known))} (known: {allowed})"
    meant = spelt or near
    return Problem(path, place.mistake(message, dotted(path), key, allowed), (*path[:-1], meant) if meant else None)


def _elsewhere(path: Path, wanted: _Wanted) -> str | None:
    """Return where else a file has a key of this name."""
    here = dotted(tuple(part for part in path if isinstance(part, str)))
    places = [place for place in places_of(wanted.model, str(path[-1])) if place != here][:_MOST_PLACES]
    return f"it is a key elsewhere: {', '.join(places)}" if places else None


def _unknown_kind(path: Path, root: TreeNode, wanted: _Wanted) -> Problem:
    parent = path[:-1]
    known = known_kinds(models_at(wanted.model, root, parent))
    what = str(next((part for part in reversed(parent) if isinstance(part, str)), wanted.what)).removesuffix("s")
    node = root.at(path)
    if node is None:
        allowed = ", ".join(known)
        message = f"this key is missing: the kind of {what} (known: {allowed})"
        return Problem(path, place_of(path, root).mistake(message, dotted(path), "nothing", allowed))
    got = node.plain()
    error = unknown_name(what, got if isinstance(got, str) else got_text(got), known).mistakes[0]
    return Problem(path, node.place.mistake(error.message, dotted(path), error.got, error.allowed))
