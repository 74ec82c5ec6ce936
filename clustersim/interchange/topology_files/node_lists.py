"""Lists of names as SLURM and SimGrid write them, such as `node[001-064,070]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from clustersim.errors import InputError

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")

_MAX_CHARACTERS = 4 << 20


def expand_names(text: str, most: int) -> list[str]:
    """Return the names of a list; refuse one that has more than `most`, before it is expanded.

    >>> expand_names("node[08-10,12],login", 100)
    ['node08', 'node09', 'node10', 'node12', 'login']
    >>> expand_names("r[1-2]n[0-1]", 100)
    ['r1n0', 'r1n1', 'r2n0', 'r2n1']
    """
    names: list[str] = []
    if len(text) > _MAX_CHARACTERS:
        raise _too_many(text, most)
    for element in _elements(text):
        names += _expanded(element, text, most - len(names))
        if len(names) > most:
            raise _too_many(text, most)
    if not names:
        raise InputError("the list of names is empty", got=text[:60], allowed="names, such as node[001-064,070]")
    return names


def _elements(text: str) -> Iterator[str]:
    """Yield the elements between commas outside brackets."""
    depth, start = 0, 0
    for place, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise _malformed(text)
        if char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if depth:
        raise _malformed(text)
    yield text[start:]


def _expanded(element: str, text: str, most: int) -> list[str]:
    parts: list[list[tuple[int, int, int]] | str] = []
    place, count = 0, 1
    for match in _PART.finditer(element.strip()):
        if match.start() != place:
            raise _malformed(text)
        place = match.end()
        if match[1] is None:
            parts.append(match[2])
            continue
        ranges, choices = _ranges(match[1], text, most)
        parts.append(ranges)
        count *= choices
        if count > most:
            raise _too_many(text, most)
    if place != len(element.strip()):
        raise _malformed(text)
    values = [[part] if isinstance(part, str) else list(_numbers(part)) for part in parts]
    return ["".join(each) for each in product(*values)] if parts else []


def _ranges(text: str, whole: str, most: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return the ranges between brackets, and how many numbers they have; it ends with the first above `most`."""
    found: list[tuple[int, int, int]] = []
    count = start = 0
    while start <= len(text) and count <= most:
        end = text.find(",", start)
        end = len(text) if end < 0 else end
        found.append(_range(text[start:end], whole))
        count += found[-1][1] - found[-1][0] + 1
        start = end + 1
    return found, count


def _too_many(text: str, most: int) -> InputError:
    limit = f"at most {most:,} names" if most > 0 else "fewer names in all"
    return InputError(f"the list is too long: {limit} are read", got=text[:60], allowed=limit)


def _numbers(ranges: list[tuple[int, int, int]]) -> Iterator[str]:
    for first, last, digits in ranges:
        for number in range(first, last + 1):
            yield f"{number:0{digits}d}"


def _range(piece: str, text: str) -> tuple[int, int, int]:
    """Return the first and the last number of a range, and how many digits its numbers have at least."""
    match = _RANGE.fullmatch(piece.strip())
    if not match or int(match[2] or match[1]) < int(match[1]):
        raise _malformed(text)
    return int(match[1]), int(match[2] or match[1]), len(match[1])


def _malformed(text: str) -> InputError:
    return InputError(
        "this is not a list of names, such as node[001-064,070]",
        got=text[:60],
        allowed="names, such as node[001-064,070]",
    )
