"""Reads a folder of Chakra traces as graphs of ranks, for simulation."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.interchange.chakra.message import (
    BARRIER,
    COLLECTIVES,
    COMM_COLL,
    COMM_RECV,
    COMM_SEND,
    COMP,
    MEM_LOAD,
    MEM_STORE,
    REDUCE_SCATTER_BLOCK,
    ProtoMessage,
    decode,
)
from clustersim.interchange.chakra.wire import messages
from clustersim.program.graph import COLLECTIVE, COMPUTE, NOTHING, RECEIVE, SEND, TaskNode, in_order

Groups = Mapping[str, tuple[int, ...]]
_FILE = re.compile(r"(.+)\.(\d+)\.et")
_DEFAULT = ("", "0")  # names of the group of all ranks


def read_chakra(
    folder: str | Path, groups: str | Path | None = None, on_progress: Callable[[float], None] = lambda share: None
) -> list[list[TaskNode]]:
    """Return the graph of every rank of a trace [num_ranks]; raise InputError for what cannot be simulated.

    `folder` has one file `<name>.<rank>.et` for each rank, which may be compressed. `groups` is ASTRA-sim's file of
    communicator groups; by default the one JSON file in the folder. Compute and memory nodes take the
    recorded time. The bytes of an all-gather are those of one rank's part.
    """
    files = _files(Path(folder))
    known = _groups(Path(folder) if groups is None else Path(groups), len(files))
    graphs = []
    for rank, file in enumerate(files):
        graphs.append(_read(file, rank, len(files), known))
        on_progress((rank + 1) / len(files))
    _check_messages(graphs, files)
    _check_collectives(graphs, files)
    return graphs


def _files(folder: Path) -> list[Path]:
    """Return the file of each rank."""
    if not folder.is_dir():
        raise InputError(_mistake(folder, "there is no folder of this name", "a folder of <name>.<rank>.et"))
    found = [(match[1], int(match[2]), path) for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))]
    names = sorted({name for name, _, _ in found})
    if len(names) != 1:
        what = f"traces of several names: {', '.join(names)}" if names else "no traces"
        raise InputError(_mistake(folder, f"has {what}; one for each rank is expected", "<name>.<rank>.et"))
    by_rank = {rank: path for _, rank, path in found}
    missing = [rank for rank in range(max(by_rank)) if rank not in by_rank]
    if missing:
        text = f"has no {names[0]}.{missing[0]}.et, but one of rank {max(by_rank)}"
        raise InputError(_mistake(folder, text, "traces of all ranks from 0 on"))
    return [by_rank[rank] for rank in range(len(by_rank))]


def _mistake(folder: Path, message: str, allowed: str) -> Mistake:
    return Mistake(message, file=str(folder), got=str(folder), allowed=allowed)


def _groups(where: Path, num_ranks: int) -> Groups:
    """Return the ranks of each group by its name."""
    path = where
    if where.is_dir():
        beside = sorted(where.glob("*.json"))
        if len(beside) > 1:
            raise InputError(f"{where} has several JSON files; select that of the groups (--groups)", got=str(where))
        if not beside:
            return {}
        path = beside[0]
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a file of groups: {error}", got=str(path)) from None
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


def _read(file: Path, rank: int, num_ranks: int, groups: Groups) -> list[TaskNode]:
    reader = _Reader(file, rank, num_ranks, groups)
    try:
        data = file.read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        nodes = [reader.node(decode(message)) for message in list(messages(data))[1:]]
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(Mistake(f"cannot be read: {error}", file=str(file))) from None
    except InputError:
        raise
    except ValueError as error:
        raise InputError(Mistake(f"is not a Chakra trace: {error}", file=str(file))) from None
    numbers = Counter(node.number for node in nodes)
    twice = [number for number, times in numbers.items() if times > 1]
    if twice:
        raise reader.error(f"has {numbers[twice[0]]} nodes with number {twice[0]}")
    for node in nodes:
        for number in (*node.data_deps, *node.order_deps):
            if number not in numbers:
                raise reader.error(f"node {node.number} '{node.name}' depends on node {number}, which does not exist")
    try:
        return in_order(nodes)
    except InputError as error:
        raise reader.error(str(error)) from None


class _Reader:
    """Converts the messages of one rank into nodes."""

    def __init__(self, file: Path, rank: int, num_ranks: int, groups: Groups):
        self._file, self._rank, self._num_ranks, self._groups = file, rank, num_ranks, groups

    def error(self, message: str, got: str | None = None, allowed: str | None = None) -> InputError:
        """Return an error of this file."""
        return InputError(Mistake(message, file=str(self._file), got=got, allowed=allowed))

    def node(self, message: ProtoMessage) -> TaskNode:
        """Return a message as a node."""
        node = TaskNode(message.number, NOTHING, message.name, message.data_deps, message.order_deps)
        if message.kind in (COMP, MEM_LOAD, MEM_STORE):
            return self._compute(node, message)
        if message.kind in (COMM_SEND, COMM_RECV):
            return self._message(node, message)
        return self._collective(node, message) if message.kind == COMM_COLL else node

    def _compute(self, node: TaskNode, message: ProtoMessage) -> TaskNode:
        seconds = self._number(message, "seconds", message.micros * 1e-6)
        has_work = self._number(message, "num_ops", 0.0) > 0
        if message.kind != COMP:
            has_work = self._number(message, "tensor_size", 0.0) > 0
        if seconds < 0:
            raise self.error(f"node {node.number} '{node.name}' takes {seconds:g} s", str(seconds), "0 or more")
        if has_work and not message.micros and "seconds" not in message.attributes:
            raise self.error(
                f"node {node.number} '{node.name}' has no duration; nodes are simulated with their recorded time",
                got="duration_micros 0",
                allowed="duration_micros above 0",
            )
        flop, moved = (self._number(message, key, 0.0) for key in ("num_ops", "tensor_size"))
        on_host = bool(message.attributes.get("is_cpu_op", False))
        return node._replace(kind=COMPUTE, seconds=seconds, flop=flop, moved_bytes=moved, on_host=on_host)

    def _message(self, node: TaskNode, message: ProtoMessage) -> TaskNode:
        is_send = message.kind == COMM_SEND
        own, other = ("comm_src", "comm_dst") if is_send else ("comm_dst", "comm_src")
        here, peer = (int(self._number(message, key, default)) for key, default in ((own, self._rank), (other, None)))
        if here != self._rank:
            raise self.error(
                f"node {node.number} '{node.name}' belongs to rank {here}, in the trace of rank {self._rank}"
            )
        if not 0 <= peer < self._num_ranks or peer == self._rank:
            text = f"node {node.number} '{node.name}' is a message with rank {peer}"
            raise self.error(text, got=str(peer), allowed=f"another of {self._num_ranks} ranks")
        tag = int(self._number(message, "comm_tag", 0))
        kind = SEND if is_send else RECEIVE
        return node._replace(kind=kind, num_bytes=self._size(message), peer=peer, tag=tag)

    def _collective(self, node: TaskNode, message: ProtoMessage) -> TaskNode:
        number = int(self._number(message, "comm_type", None))
        op = "reduce-scatter" if number == REDUCE_SCATTER_BLOCK else "barrier" if number == BARRIER else None
        if op is None and not 0 <= number < len(COLLECTIVES):
            allowed = f"0 to {BARRIER}"
            raise self.error(f"node {node.number} '{node.name}' has the comm_type {number}", str(number), allowed)
        op = op or COLLECTIVES[number]
        name = str(message.attributes.get("pg_name", ""))
        name = "" if name in _DEFAULT else name
        group = self._groups.get(name) if name else tuple(range(self._num_ranks))
        if group is None:
            text = f"node {node.number} '{node.name}' is in group '{name}', which is not in the file of groups"
            raise self.error(text, got=name, allowed=", ".join(self._groups) or "a file of groups (--groups)")
        if self._rank not in group:
            raise self.error(
                f"node {node.number} '{node.name}' is in group '{name}', which does not contain rank {self._rank}"
            )
        size = 0.0 if op == "barrier" else self._size(message) * (len(group) if op == "all-gather" else 1)
        root = int(self._number(message, "root", 0))
        if not 0 <= root < len(group):
            text = f"node {node.number} '{node.name}' has its root at index {root} of a group of {len(group)}"
            raise self.error(text, str(root), f"0 to {len(group) - 1}")
        group = (*group[root:], *group[:root])
        algorithm = str(message.attributes.get("algorithm", "auto"))
        return node._replace(kind=COLLECTIVE, op=op, group=group, channel=name, num_bytes=size, algorithm=algorithm)

    def _size(self, message: ProtoMessage) -> float:
        size = self._number(message, "num_bytes", self._number(message, "comm_size", None))
        if size < 0:
            raise self.error(f"node {message.number} '{message.name}' has {size:g} bytes", str(size), "0 or more")
        return size

    def _number(self, message: ProtoMessage, key: str, default: float | None) -> float:
        value = message.attributes.get(key, default)
        if not isinstance(value, int | float) or not isfinite(value):
            what = "no" if value is None else f"{value!r} for"
            raise self.error(
                f"node {message.number} '{message.name}' has {what} {key}", got=str(value), allowed="a number"
            )
        return float(value)


def _check_messages(graphs: Sequence[Sequence[TaskNode]], files: Sequence[Path]) -> None:
    """Refuse messages that are sent and not received, or received and not sent."""
    sent: Counter[tuple[int, int, int]] = Counter()
    received: Counter[tuple[int, int, int]] = Counter()
    for rank, graph in enumerate(graphs):
        sent.update((rank, node.peer, node.tag) for node in graph if node.kind == SEND)
        received.update((node.peer, rank, node.tag) for node in graph if node.kind == RECEIVE)
    for key in sorted({*sent, *received}):
        if sent[key] != received[key]:
            src, dst, tag = key
            text = f"rank {src} sends {sent[key]} messages of tag {tag} to rank {dst}, which receives {received[key]}"
            raise InputError(Mistake(text, file=str(files[src])))


def _check_collectives(graphs: Sequence[Sequence[TaskNode]], files: Sequence[Path]) -> None:
    """Refuse collectives that the ranks of a group do not enter in the same order."""
    entered: dict[tuple[str, tuple[int, ...]], dict[int, list[TaskNode]]] = {}
    for rank, graph in enumerate(graphs):
        for node in graph:
            if node.kind == COLLECTIVE:
                entered.setdefault((node.channel, node.group), {}).setdefault(rank, []).append(node)
    for (_, group), by_rank in entered.items():
        first = by_rank.get(group[0], [])
        for rank in group:
            own = by_rank.get(rank, [])
            if len(own) != len(first):
                text = f"rank {rank} enters {len(own)} collectives of its group with rank {group[0]}, which enters"
                raise InputError(Mistake(f"{text} {len(first)}", file=str(files[rank])))
            for one, other in zip(first, own, strict=True):
                if (one.op, one.num_bytes) != (other.op, other.num_bytes):
                    text = f"node {other.number} '{other.name}' is {other.op} of {other.num_bytes:g} bytes, but on"
                    text += f" rank {group[0]} it is {one.op} of {one.num_bytes:g}"
                    raise InputError(Mistake(text, file=str(files[rank])))
