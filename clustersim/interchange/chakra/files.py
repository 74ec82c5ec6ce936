"""The files of a folder of traces: one for each rank, and that of the groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.interchange.chakra.json_form import json_nodes
from clustersim.interchange.chakra.message import ProtoMessage, decode, decode_version
from clustersim.interchange.chakra.wire import messages
from clustersim.reading import parse_json, read_packed

Groups = Mapping[str, tuple[int, ...]]

MAX_BYTES = 2_000_000_000
"""The most that the trace of a rank may unpack to."""

_MOST_OF_GROUPS = 64 << 20
_FILE = re.compile(r"(.+)\.(\d{1,9})\.(et|json)(?:\.gz)?")


def trace_files(folder: Path) -> list[Path]:
    """Return the file of each rank: `<name>.<rank>.et`, or .json where there is no .et."""
    if not folder.is_dir():
        raise InputError(_mistake(folder, "there is no folder of this name", "a folder of <name>.<rank>.et"))
    matches = [(match, path) for path in sorted(folder.iterdir()) if (match := _FILE.fullmatch(path.name))]
    ending = "et" if any(match[3] == "et" for match, _ in matches) else "json"
    found = [(match[1], int(match[2]), path) for match, path in matches if match[3] == ending]
    names = sorted({name for name, _, _ in found})
    if len(names) != 1:
        what = f"traces of several names: {', '.join(names)}" if names else "no traces"
        raise InputError(_mistake(folder, f"has {what}; one for each rank is expected", "<name>.<rank>.et"))
    by_rank = {rank: path for _, rank, path in found}
    if len(by_rank) < len(found):
        raise InputError(_mistake(folder, "has two traces of one rank", "one trace for each rank"))
    missing = next((rank for rank in range(len(by_rank)) if rank not in by_rank), None)
    if missing is not None:
        text = f"has no {names[0]}.{missing}.{ending}, but one of rank {max(by_rank)}"
        raise InputError(_mistake(folder, text, "traces of all ranks from 0 on"))
    return [by_rank[rank] for rank in range(len(by_rank))]


def _mistake(folder: Path, message: str, allowed: str) -> Mistake:
    return Mistake(message, file=str(folder), got=str(folder), allowed=allowed)


def group_file(where: Path, num_ranks: int) -> Groups:
    """Return the ranks of each group by its name, from a file or the one JSON file of a folder that is no trace."""
    path = where
    if where.is_dir():
        beside = [each for each in sorted(where.glob("*.json")) if not _FILE.fullmatch(each.name)]
        if len(beside) > 1:
            raise InputError(f"{where} has several JSON files; select that of the groups (--groups)", got=str(where))
        if not beside:
            return {}
        path = beside[0]
    document = parse_json(read_packed(path, _MOST_OF_GROUPS), str(path), "a file of groups")
    allowed = f'{{"1": [0, 1], ...}} with ranks below {num_ranks}'
    known = {}
    for name, ranks in document.items() if isinstance(document, dict) else [("", [])]:
        is_list = isinstance(ranks, list) and all(type(rank) is int and 0 <= rank < num_ranks for rank in ranks)
        if not is_list or len(set(ranks)) < len(ranks) or not ranks:
            raise InputError(
                Mistake(f"group '{name}' is not a list of ranks of the trace", file=str(path), allowed=allowed)
            )
        known[name] = tuple(ranks)
    return known


def trace_messages(file: Path) -> tuple[str, list[ProtoMessage]]:
    """Return the version of a rank's trace (empty if it has none) and its nodes."""
    data = read_packed(file, MAX_BYTES)
    if file.name.removesuffix(".gz").endswith(".json"):
        try:
            return json_nodes(data.decode("utf-8-sig"), str(file))
        except UnicodeDecodeError:
            raise InputError(Mistake("is not a Chakra trace: it is not text", file=str(file))) from None
    try:
        return _decoded(data)
    except ValueError as error:
        raise InputError(Mistake(f"is not a Chakra trace: {error}", file=str(file))) from None


def _decoded(data: bytes) -> tuple[str, list[ProtoMessage]]:
    """Return the version and the nodes of a binary trace; stop at the first node whose number came before."""
    version: str | None = None
    nodes: list[ProtoMessage] = []
    numbers: set[int] = set()
    for place, message in enumerate(messages(data)):
        if place == 0:
            version = decode_version(message)
            if version is not None:
                continue
        node = decode(message)
        if node.number in numbers:
            raise ValueError(f"it has several nodes with number {node.number}")
        numbers.add(node.number)
        nodes.append(node)
    return version or "", nodes
