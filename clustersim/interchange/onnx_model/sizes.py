"""The `--dim` option: sizes of open dimensions of an ONNX file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clustersim.errors import InputError

_EXPECTED = "a name and a size, such as sequence=128"


def parse_sizes(texts: Iterable[str]) -> dict[str, int]:
    """Return sizes by the name of their dimension.

    >>> parse_sizes(["sequence=128"])
    {'sequence': 128}
    """
    sizes: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not re.fullmatch(r"[1-9][0-9]{0,9}", size):
            raise InputError(f"expected {_EXPECTED} (got '{text}')", key="--dim", got=text, allowed=_EXPECTED)
        sizes[name] = int(size)
    return sizes
