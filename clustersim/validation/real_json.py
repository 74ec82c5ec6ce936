"""Reads the complete part of a JSON document, for files that were cut off."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_SPACE = re.compile(r"[\s,]*")
_decoder = json.JSONDecoder()


class Salvaged(NamedTuple):
    """The complete part of a document; `lost` is the place where it ends, and empty if nothing is missing."""

    document: dict[str, Any]
    lost: str


def read_whole_part(text: str) -> Salvaged:
    """Return the complete members of an object; of an incomplete list, its complete members.

    >>> read_whole_part('{"a": 1, "b": [{"c": 2}, {"d": 3}, {"e"')
    Salvaged(document={'a': 1, 'b': [{'c': 2}, {'d': 3}]}, lost="line 1, in 'b'")
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return _salvage(text)
    return Salvaged(document if isinstance(document, dict) else {}, "")


def _salvage(text: str) -> Salvaged:
    found: dict[str, Any] = {}
    key = ""
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        return Salvaged({}, _place(text, at, key))
    at += 1
    try:
        while True:
            at = _skip(text, at)
            key, after = _decoder.raw_decode(text, at)
            colon = _skip(text, after)
            if not isinstance(key, str) or text[colon : colon + 1] != ":":
                return Salvaged(found, _place(text, colon, ""))
            at = _skip(text, colon + 1)
            if text[at : at + 1] == "[":
                found[key], at = _members(text, at + 1)
                if text[at : at + 1] != "]":
                    return Salvaged(found, _place(text, at, key))
                at += 1
            else:
                found[key], at = _decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return Salvaged(found, _place(text, at, key))


def _members(text: str, at: int) -> tuple[list[Any], int]:
    """Return the complete members of a list, and the position after them."""
    members: list[Any] = []
    while True:
        at = _skip(text, at)
        try:
            member, at = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return members, at
        members.append(member)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _place(text: str, at: int, key: str) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line}, in '{key}'" if key else f"line {line}"
