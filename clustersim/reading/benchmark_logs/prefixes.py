"""Removes what launchers and collectors of logs put before each line of a benchmark's output.

Nothing is known about launchers: lines that a benchmark is known to print (a heading, a title) show what stands before
them, such as `[1,0]<stdout>:`, `0: ` or a pod's name and a time. The same with other digits is removed from every line.
Lines are cut where they are far longer than any that a benchmark prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from clustersim.reading.benchmark_logs.measurement import Line

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_KNOWN = re.compile(
    r"#\s*(?:nThread\s+\d|nccl-tests version|Collective test (?:starting|concluded)|Using devices|Rank\s+\d+\s|"
    r"size\s+count\s+type\b|Out of bounds values|Avg bus bandwidth|OSU MPI|Size\s[^(]*\((?:us|MB/s)\))"
    r"|nvbandwidth Version|Running \w+_memcpy_|(?:Uni|Bi)directional P2P=|(?<!directional )P2P=(?:En|Dis)abled "
)
_WORDS = ("#", "P2P", "nvband", "memcpy")
_TYPES = ("float", "half", "double", "int", "char", "f8", "fp8")
_BARE_ROW = re.compile(rf"(?<![\w.])\d+\s+\d+\s+[a-z]*(?:{'|'.join(_TYPES)})\w*\s")
_TIME = re.compile(
    r"(?:\d+[-/])+\d+[T ]?|\d+:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|(?<![\d.])\d+\.\d{3,}(?![\d.])"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+\d+(?:\s+\d{4}\b)?"
)
_PARTS = re.compile(
    r"(?P<fraction>[.,]\d+)|(?P<digits>\d+)|(?P<space>\s+)|(?P<stream>std(?:out|err))|(?P<word>[A-Za-z]+)|."
)
_FIGURES = re.compile(r"\s*\d[\d.]*\s+\d")  # a row that another line has cut off
_MOST_COLUMNS = 4096
_MOST_CHARACTERS = 200
_MOST_PREFIXES = 50
_MONTHS_AND_DAYS = frozenset(re.findall(r"\b[A-Z][a-z]{2}\b", _TIME.pattern))


def without_prefixes(lines: Iterable[str]) -> tuple[Line, ...]:
    """Return lines that are not blank, without escape codes and without what launchers put before them."""
    plain = [_ESCAPE.sub("", line[:_MOST_COLUMNS]) if "\x1b" in line else line[:_MOST_COLUMNS] for line in lines]
    prefixes = list(_prefixes(plain, _KNOWN, _WORDS)) or list(_prefixes(plain, _BARE_ROW, _TYPES))
    patterns = {_pattern(prefix): None for prefix in prefixes}
    if not patterns:
        return tuple(Line(number, line) for number, line in enumerate(plain, start=1) if line.strip())
    longest_first = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
    before = re.compile("|".join(longest_first))
    return tuple(_stripped(plain, before))


def _prefixes(lines: Iterable[str], wanted: re.Pattern[str], words: Sequence[str]) -> Iterator[str]:
    """Yield what stands before lines of a pattern; a line without any of the words has not got it."""
    found: dict[str, None] = {}
    for line in lines:
        if not any(word in line for word in words):
            continue
        known = wanted.search(line)
        prefix = "" if known is None else line[: known.start()]
        if prefix and len(prefix) <= _MOST_CHARACTERS and prefix not in found and not _FIGURES.match(prefix):
            if len(found) >= _MOST_PREFIXES:
                return
            found[prefix] = None
            yield prefix


def _pattern(prefix: str) -> str:
    """Return the pattern of prefixes that differ from one only in digits, days and months."""
    core = prefix.rstrip()
    space = rf"\s{{0,{len(prefix) - len(core)}}}"
    if not re.search(r"[^\s\d]", core):
        return re.escape(core) + space
    return "".join(map(_part, _PARTS.finditer(core))) + space


def _part(match: re.Match[str]) -> str:
    text = match[0]
    if match["fraction"]:
        return rf"(?:{re.escape(text[0])}\d+)?"
    if match["digits"]:
        return r"\d+"
    if match["space"]:
        return r"\s+"
    if match["stream"]:
        return "std(?:out|err)"
    return "[A-Z][a-z]{2}" if text in _MONTHS_AND_DAYS else re.escape(text)


def _stripped(lines: Iterable[str], before: re.Pattern[str]) -> Iterator[Line]:
    for number, line in enumerate(lines, start=1):
        match = before.match(line)
        text = line if match is None else line[match.end() :]
        if text.strip():
            yield Line(number, text, "" if match is None else _TIME.sub("", match[0]).strip())
