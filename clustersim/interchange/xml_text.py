"""Reads XML of other tools within limits of depth and size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast
from xml.etree import ElementTree
from xml.parsers import expat

from clustersim.errors import InputError, Mistake

MAX_DEPTH = 40
MAX_ELEMENTS = 300_000
_CHUNK = 1 << 16


def read_xml(text: str, what: str, root: str) -> ElementTree.Element:
    """Return the root of an XML text, which is called `root`; `what` is the file in messages.

    A document type may be named and is not read; one with declarations inside is refused, since entities may expand
    without limit.
    """
    head = text.split(f"<{root}", 1)[0]
    if "<!ENTITY" in text or "[" in head.partition("<!DOCTYPE")[2]:
        raise InputError(f"this {what} declares entities, which are not read", got="<!ENTITY", allowed="plain XML")
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("start", "end"))
    depth = elements = 0
    top: ElementTree.Element | None = None
    try:
        for start in range(0, len(text), _CHUNK):
            parser.feed(text[start : start + _CHUNK])
            for event, element in cast("Iterator[tuple[str, ElementTree.Element]]", parser.read_events()):
                depth += 1 if event == "start" else -1
                elements += event == "start"
                top = element if top is None else top
                if depth > MAX_DEPTH or elements > MAX_ELEMENTS:
                    limit = f"at most {MAX_DEPTH} levels and {MAX_ELEMENTS:,} elements"
                    raise InputError(f"this {what} is too large: {limit} are read", got=element.tag[:40], allowed=limit)
        parser.close()
    except (ElementTree.ParseError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        line = getattr(error, "position", (None, 0))[0]
        raise InputError(
            Mistake(f"this is not XML: {error}", line=line, got=text.strip()[:40], allowed="XML")
        ) from None
    if top is None or top.tag != root:
        got = "nothing" if top is None else f"<{top.tag[:40]}>"
        raise InputError(f"this is not a {what}", got=got, allowed=f"<{root}>")
    return top


@contextmanager
def mistakes_at(element: ElementTree.Element, root: ElementTree.Element, text: str) -> Iterator[None]:
    """Give mistakes inside, where they have no line, that of an element of `root`, which was read from `text`."""
    try:
        yield
    except InputError as error:
        line = line_of(element, root, text)
        raise InputError([replace(each, line=each.line or line) for each in error.mistakes]) from None


def line_of(element: ElementTree.Element, root: ElementTree.Element, text: str) -> int | None:
    """Return the line on which an element begins, from 1; the text is read again, so only for messages.

    >>> root = ElementTree.fromstring("<a>\\n<b/>\\n<b/></a>")
    >>> line_of(root[1], root, "<a>\\n<b/>\\n<b/></a>")
    3
    """
    number = next((number for number, each in enumerate(root.iter()) if each is element), None)
    lines: list[int] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda *_: lines.append(parser.CurrentLineNumber)
    parser.Parse(text, True)
    return None if number is None else lines[number]
