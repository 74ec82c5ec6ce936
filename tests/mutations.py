"""Mutated documents, and the check that a reader refuses them clearly, quickly and in little memory.

The same mutations are drawn every time, unless CLUSTERSIM_FUZZ asks for others (`make fuzz`).
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from clustersim.errors import InputError

Mutation = Callable[[bytes, random.Random], bytes]

WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2.5, -1e300, 1e308, 2**63, 10**30, float("nan"), float("inf"), "", "x", "-1", "1e999", "nan",
    "\u0000", "é" * 50, "../../etc/passwd", "<b>", [], [[]], [1, 2, 3], ["x"], {}, {"x": {}}, {"": None},
)  # fmt: skip
"""Values of other types and sizes than a document has at that place."""

_INSERTED = (b"\0", b"\n", b'"', b"{", b"]", b"<", b"&x;", b"\xff\xfe", b"9" * 400, b"-", b"e", b"[" * 5000)
_NUMBERS = (b"0", b"-1", b"1e400", b"nan", b"99999999999999999999", b"1", b"3.7", b"x", b"0x10", b"1e-320")
_GZIP = b"\x1f\x8b"


def mutations(data: bytes, seed: int = 0, count: int = 500) -> Iterator[bytes]:
    """Yield `count` mutated documents: of the bytes, of the lines, and of the structure of JSON and XML.

    A compressed document is mutated before and after it is unpacked.
    """
    drawn = random.Random(None if os.environ.get("CLUSTERSIM_FUZZ") else seed)
    kinds = _kinds_for(data)
    for number in range(count):
        mutated = data
        for _ in range(drawn.choice((1, 1, 1, 2, 4))):
            mutated = kinds[number % len(kinds)](mutated, drawn)
        yield mutated


def check_mutations(
    read: Callable[[Path], object],
    document: bytes,
    path: Path,
    count: int = 500,
    seed: int = 0,
    cpu_s: float = 2.0,
) -> tuple[int, int]:
    """Return how many mutations were read and refused; fail for any error but InputError, or one without a message.

    Every document takes at most `cpu_s` seconds and 1 s per 10 MB. All together add at most 200 MB and ten times the
    largest document to the memory of this process.
    """
    was_read = refused = largest = 0
    before = _peak_bytes()
    for number, mutated in enumerate(mutations(document, seed, count)):
        path.write_bytes(mutated)
        largest, start = max(largest, len(mutated)), time.process_time()
        try:
            read(path)
            was_read += 1
        except InputError as error:
            refused += 1
            if not str(error).strip():
                raise AssertionError(f"mutation {number}: an empty message") from None
        except BaseException:
            kept = path.with_name(f"{path.name}.failed")
            kept.write_bytes(mutated)
            print(f"mutation {number} of seed {seed} is kept as {kept}")
            raise
        took = time.process_time() - start
        assert took <= cpu_s + len(mutated) / 1e7, f"mutation {number} took {took:.1f} CPU s"
    grown = _peak_bytes() - before
    assert grown <= 200e6 + 10 * largest, f"the memory grew by {grown / 1e6:.0f} MB"
    return was_read, refused


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _kinds_for(data: bytes) -> list[Mutation]:
    kinds: list[Mutation] = [_flip, _cut_out, _insert, _truncate, _repeat, _line, _number]
    if data.startswith(_GZIP):
        inner = _kinds_for(gzip.decompress(data))
        return [*kinds[:5], *(_compressed(kind) for kind in inner)]
    text = data.lstrip()
    if text[:1] in b"{[" and _loads(data) is not None:
        return [*kinds, *[_json] * 7]
    if text[:1] == b"<":
        return [*kinds, *[_xml] * 7]
    return [*kinds, _line, _number]


def _compressed(kind: Mutation) -> Mutation:
    def mutate(data: bytes, drawn: random.Random) -> bytes:
        try:
            inside = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return _flip(data, drawn)
        return gzip.compress(kind(inside, drawn), 1)

    return mutate


def _place(data: bytes, drawn: random.Random) -> int:
    return drawn.randrange(len(data) + 1)


def _flip(data: bytes, drawn: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(drawn.choice((1, 1, 3, 20))):
        if changed:
            changed[drawn.randrange(len(changed))] = drawn.randrange(256)
    return bytes(changed)


def _cut_out(data: bytes, drawn: random.Random) -> bytes:
    start = _place(data, drawn)
    return data[:start] + data[start + drawn.choice((1, 2, 10, 100, 1000)) :]


def _insert(data: bytes, drawn: random.Random) -> bytes:
    start = _place(data, drawn)
    some = drawn.choice(
        (b"\0", b"\n", b'"', b"{", b"]", b"<", b"&x;", b"\xff\xfe", b"9" * 400, b"-", b"e", b"[" * 5000)
    )
    return data[:start] + some + data[start:]


def _truncate(data: bytes, drawn: random.Random) -> bytes:
    return data[: _place(data, drawn)]


def _repeat(data: bytes, drawn: random.Random) -> bytes:
    start = _place(data, drawn)
    piece = data[start : start + drawn.choice((10, 100, 1000))]
    return data[:start] + piece * drawn.choice((2, 2, 50)) + data[start:]


def _line(data: bytes, drawn: random.Random) -> bytes:
    lines = data.split(b"\n")
    at, other = drawn.randrange(len(lines)), drawn.randrange(len(lines))
    what = drawn.choice(("drop", "double", "swap", "prefix", "words"))
    if what == "drop":
        del lines[at]
    elif what == "double":
        lines.insert(other, lines[at])
    elif what == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif what == "prefix":
        lines[at] = b"[3] " + lines[at]
    else:
        words = lines[at].split(b" ")
        drawn.shuffle(words)
        lines[at] = b" ".join(words)
    return b"\n".join(lines)


def _number(data: bytes, drawn: random.Random) -> bytes:
    """Replace one number of the text."""
    starts = [at for at in range(len(data)) if data[at : at + 1].isdigit() and not data[at - 1 : at].isdigit()]
    if not starts:
        return _flip(data, drawn)
    start = end = drawn.choice(starts)
    while data[end : end + 1].isdigit():
        end += 1
    other = drawn.choice(
        (b"0", b"-1", b"1e400", b"nan", b"99999999999999999999", b"1", b"3.7", b"x", b"0x10", b"1e-320")
    )
    return data[:start] + other + data[end:]


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _json(data: bytes, drawn: random.Random) -> bytes:
    """Change one value of a JSON document: another type, a missing or an unknown key, a copy, a deep nest."""
    tree = _loads(data)
    holders: list[Any] = []
    _collect(tree, holders)
    filled = [holder for holder in holders if holder]
    if not filled:
        return _flip(data, drawn)
    holder = drawn.choice(filled)
    key = drawn.choice(list(holder)) if isinstance(holder, dict) else drawn.randrange(len(holder))
    what = drawn.choice(("wrong", "wrong", "wrong", "drop", "unknown", "copy", "deep", "other"))
    if what == "wrong":
        holder[key] = drawn.choice(WRONG)
    elif what == "drop":
        del holder[key]
    elif what == "unknown" and isinstance(holder, dict):
        holder[f"{key}_x"] = holder.pop(key)
    elif what == "copy" and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif what == "deep":
        text = json.dumps(tree)
        return text.replace(json.dumps(holder[key]), "[" * 3000 + "]" * 3000, 1).encode()
    else:
        other = drawn.choice(filled)
        holder[key] = json.loads(json.dumps(other))
    return json.dumps(tree).encode()


def _collect(node: Any, into: list[Any]) -> None:
    if isinstance(node, dict | list):
        into.append(node)
        for each in node.values() if isinstance(node, dict) else node:
            _collect(each, into)


def _xml(data: bytes, drawn: random.Random) -> bytes:
    """Change one element of an XML document: an attribute, a tag, a missing or doubled element, a deep nest."""
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError):
        return _flip(data, drawn)
    element = drawn.choice(list(root.iter()))
    parents = [parent for parent in root.iter() if len(parent)]
    what = drawn.choice(("attribute", "attribute", "attribute", "remove", "tag", "drop", "double", "deep", "move"))
    if what in ("attribute", "remove") and element.attrib:
        key = drawn.choice(list(element.attrib))
        if what == "remove":
            del element.attrib[key]
        else:
            element.attrib[key] = str(drawn.choice(WRONG)).replace("\0", "")
    elif what == "tag":
        element.tag = drawn.choice(list(root.iter())).tag
    elif what == "deep":
        tag, (before, after) = str(element.tag).encode(), _parted(data, drawn)
        return before + b"<%b>" % tag * 3000 + b"</%b>" % tag * 3000 + after
    elif parents:
        parent = drawn.choice(parents)
        child = drawn.choice(list(parent))
        if what == "double":
            parent.append(child)
        elif what == "move":
            drawn.choice([each for each in parents if each not in set(child.iter())]).append(child)
        else:
            parent.remove(child)
    try:
        return ElementTree.tostring(root)
    except RecursionError:
        return _flip(data, drawn)


def _parted(data: bytes, drawn: random.Random) -> tuple[bytes, bytes]:
    """Return the document before and after the end of one of its tags."""
    ends = [at + 1 for at in range(len(data)) if data[at : at + 1] == b">"]
    end = drawn.choice(ends)
    return data[:end], data[end:]
