"""Lists of names as SLURM and SimGrid write them, such as `node[001-064,070]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from clustersim.errors import InputError

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def expand_names(text: str, most: int) -> list[str]:
    """Return the names of a list; refuse one that has more than `most`, before it is expanded.

    >>> expand_names("node[08-10,12],login", 100)
    ['node08', 'node09', 'node10', 'node12', 'login']
    >>> expand_names("r[1-2]n[0-1]", 100)
    ['r1n0', 'r1n1', 'r2n0', 'r2n1']
    """
    names: list[str] = []
    for element in _elements(text):
        names += _expanded(element, text, most - len(names))
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
        ranges = [_range(piece, text) for piece in match[1].split(",")]
        count *= sum(last - first + 1 for first, last, _ in ranges)
        parts.append(ranges)
        if count > most:
            break
    if count > most:
        raise InputError(f"the list has more than {most:,} names", got=text[:60], allowed=f"at most {most:,} names")
    if place != len(element.strip()):
        raise _malformed(text)
    choices = [[part] if isinstance(part, str) else list(_numbers(part)) for part in parts]
    return ["".join(each) for each in product(*choices)] if parts else []


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
