"""The text of a topology file: a key a line, and a node or cable a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from clustersim.interchange.topology_files.assemble import ImportedTopology

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*(?: [A-Za-z_(][\w./()-]*)*")
_NUMBER_FIRST = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)? (?:[A-Za-z]+/s|[mun]?s)")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}  # YAML reads these as other types


def topology_text(found: ImportedTopology) -> str:
    """Return the topology file with its notes as comments.

    >>> print(topology_text(ImportedTopology({"kind": "star", "num_hosts": 2, "link": "1 GB/s"}, ("a note",))), end="")
    # note: a note
    kind: star
    num_hosts: 2
    link: 1 GB/s
    """
    lines = [f"# note: {' '.join(note.split())}" for note in found.notes]
    for key, value in found.mapping.items():
        lines += _block(key, value)
    return "\n".join(lines) + "\n"


def _block(key: str, value: Any, indent: str = "") -> Iterator[str]:
    """Yield the lines of a key: a list of maps has a line for each, and so has a map with such a list."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        yield f"{indent}{key}:"
        yield from (f"{indent}  - {_flow(row)}" for row in value)
    elif isinstance(value, dict) and any(isinstance(child, list) for child in value.values()):
        yield f"{indent}{key}:"
        for name, child in value.items():
            yield from _block(name, child, f"{indent}  ")
    else:
        yield f"{indent}{key}: {_flow(value)}"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        plain = (_PLAIN.fullmatch(value) and value.lower() not in _WORDS) or _NUMBER_FIRST.fullmatch(value)
        return value if plain and value.isascii() else json.dumps(value)
    return json.dumps(value)
