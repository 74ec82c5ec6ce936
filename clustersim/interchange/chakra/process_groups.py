"""The process groups that PyTorch writes into a trace, as inputs of a node `## process_group:init ##`."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

from clustersim.interchange.chakra.message import METADATA, ProtoMessage

_NODE = "process_group:init"
_MOST_CHARACTERS = 4_000_000


def is_process_groups(message: ProtoMessage) -> bool:
    """Say whether a node has the process groups of its rank."""
    return message.kind == METADATA and _NODE in message.name and bool(message.inputs.strip())


def process_groups(message: ProtoMessage, num_ranks: int) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each group by its name; a group of all ranks has none in the trace.

    Raise ValueError where the node's inputs are no groups of ranks below `num_ranks`.
    """
    found: dict[str, tuple[int, ...]] = {}
    for group in _maps(_parsed(message.inputs), depth=0):
        name, ranks, size = (group.get(key) for key in ("pg_name", "ranks", "group_size"))
        if not isinstance(name, str | int) or not isinstance(ranks, list):
            raise ValueError("a process group has no 'pg_name' or no list 'ranks'")
        own = tuple(ranks) if ranks else tuple(range(num_ranks))
        is_right = all(type(rank) is int and 0 <= rank < num_ranks for rank in own) and len(set(own)) == len(own)
        if not is_right or (not ranks and size not in (None, num_ranks)):
            raise ValueError(f"process group '{name}' is not among the {num_ranks} ranks that have a trace")
        found[str(name)] = own
    return found


def _parsed(text: str) -> Any:
    """Return a text as JSON or, failing that, as a literal of Python, as the converter writes it."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("the process groups are too long")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise ValueError("the process groups are neither JSON nor a list of it") from None


def _maps(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the maps in nested lists and in texts of JSON."""
    if depth > 4:
        raise ValueError("the process groups are nested too deeply")
    if isinstance(value, dict):
        yield value
    elif isinstance(value, str) and value.strip():
        yield from _maps(_parsed(value), depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _maps(each, depth + 1)
