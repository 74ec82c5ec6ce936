"""Reads the matrices of bandwidth between GPUs in hwloc's XML."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from clustersim.errors import InputError

_KINDS = {"NVLinkBandwidth": "nvlink", "XGMIBandwidth": "xgmi"}
_MOST_OBJECTS = 600
_ARTIFICIAL = 1_000_000  # of an object with itself, in MB/s


def bandwidths(root: Element) -> Iterator[tuple[str, str, str, float]]:
    """Yield the kind, both ends as `TYPE:gp_index`, and the rate of links (bytes/s), in each direction."""
    for element in root:
        kind = _KINDS.get(element.get("name", ""))
        if kind is None or element.tag not in ("distances2", "distances2hetero"):
            continue
        names, values = _names(element), _values(element)
        if len(names) > _MOST_OBJECTS or len(values) != len(names) ** 2:
            message = f"the matrix {element.get('name')} has {len(names)} objects and {len(values)} values"
            raise InputError(message, got=str(len(values)), allowed=f"n x n values of n objects, n <= {_MOST_OBJECTS}")
        for a, one in enumerate(names):
            for b, other in enumerate(names):
                rate = values[a * len(names) + b]
                if a != b and 0 < rate < _ARTIFICIAL:
                    yield kind, one, other, rate * 1e6


def _names(element: Element) -> list[str]:
    """Return the objects of a matrix; where all have one type, it is given once."""
    words = "".join(each.text or "" for each in element.findall("indexes")).split()
    prefix = "" if element.tag == "distances2hetero" else f"{element.get('type', '')}:"
    return [f"{prefix}{word}" for word in words]


def _values(element: Element) -> list[int]:
    words = "".join(each.text or "" for each in element.findall("u64values")).split()
    wrong = next((word for word in words if not (word.isascii() and word.isdecimal() and len(word) < 20)), None)
    if wrong is not None:
        raise InputError(f"the matrix {element.get('name')} has a value that is no number", got=wrong[:40])
    return [int(word) for word in words]
