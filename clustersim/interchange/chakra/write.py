"""Writes graphs of ranks as a folder of Chakra traces, with ASTRA-sim's file of groups."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clustersim.errors import InputError
from clustersim.interchange.chakra.message import (
    COLLECTIVES,
    COMM_COLL,
    COMM_RECV,
    COMM_SEND,
    COMP,
    METADATA,
    ProtoMessage,
    Value,
    encode,
    encode_attributes,
    framed,
    metadata,
)
from clustersim.program.graph import COLLECTIVE, COMPUTE, RECEIVE, SEND, GraphTask, TaskNode
from clustersim.results.files import to_json

NodeOf = Callable[[GraphTask, int], TaskNode]
_KINDS = {COMPUTE: COMP, SEND: COMM_SEND, RECEIVE: COMM_RECV, COLLECTIVE: COMM_COLL}


@dataclass(frozen=True)
class TraceFolder:
    """The content of a written folder: traces `<folder>/<name>.<rank>.et`, and the file of groups; `num_nodes` is the
    total.
    """

    folder: Path
    name: str
    groups: Path
    num_ranks: int
    num_nodes: int


def write_chakra(
    folder: str | Path,
    name: str,
    stages: Sequence[Sequence[GraphTask]],
    stage_of: Sequence[int],
    node_of: NodeOf,
    on_progress: Callable[[float], None] = lambda share: None,
) -> TraceFolder:
    """Write the trace of every rank atomically into a folder that is new or empty; rank r is in `stage_of[r]`.

    Durations are whole microseconds whose rounding errors do not accumulate, and sizes whole bytes. Exact values are
    written in addition, where they are not whole, as clustersim's own attributes `seconds` and `num_bytes`; so are an
    `algorithm` and the `root` of a broadcast. An all-gather has the size of one rank's part, as in ASTRA-sim. The group
    of all ranks has no name, which is ASTRA-sim's convention.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} already exists and is not empty; choose a new folder", got=str(folder))
    writer = _Writer(len(stage_of), node_of)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}", got=str(folder)) from None
    try:
        for rank, stage in enumerate(stage_of):
            (temporary / f"{name}.{rank}.et").write_bytes(writer.trace(rank, stage, stages[stage]))
            on_progress((rank + 1) / len(stage_of))
        groups = to_json(writer.groups_document(), indent=1) + "\n"
        (temporary / "groups.json").write_bytes(groups.encode())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        if folder.exists():
            folder.rmdir()
        temporary.rename(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise InputError(f"cannot write {folder}: {error.strerror}", got=str(folder)) from None
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    num_nodes = sum(len(stages[stage]) for stage in stage_of)
    return TraceFolder(folder, name, folder / "groups.json", len(stage_of), num_nodes)


class _Writer:
    """Writes traces; the common part of a stage's ranks is encoded once."""

    def __init__(self, num_ranks: int, node_of: NodeOf):
        self._num_ranks, self._node_of = num_ranks, node_of
        self._shared: dict[int, list[bytes]] = {}
        self._groups: dict[tuple[str, tuple[int, ...]], int] = {}
        self._channel_of_all: str | None = None  # of the one group of all ranks that needs no name

    def trace(self, rank: int, stage: int, tasks: Sequence[GraphTask]) -> bytes:
        """Return the file of a rank."""
        if stage not in self._shared:
            self._shared[stage] = [encode(message) for message in _messages(tasks)]
        known: dict[tuple[str, str, int, int, float], bytes] = {}
        out = [framed(metadata())]
        for task, shared in zip(tasks, self._shared[stage], strict=True):
            if task.axis or task.node.peer >= 0:
                size = task.node.num_bytes if task.node.op == "all-gather" else 0.0
                key = task.node.kind, task.axis, task.root, task.node.peer, size
                if key not in known:
                    known[key] = encode_attributes(self._own(self._node_of(task, rank), rank))
                out.append(framed(shared + known[key]))
            else:
                out.append(framed(shared))
        return b"".join(out)

    def groups_document(self) -> dict[str, list[int]]:
        """Return ASTRA-sim's communicator groups: ranks by a number, which a node has as its `pg_name`."""
        return {str(number): list(group) for (_, group), number in self._groups.items()}

    def _own(self, node: TaskNode, rank: int) -> dict[str, Value]:
        """Return the attributes of a node that differ between the ranks of its stage."""
        if node.kind == SEND:
            return {"comm_src": rank, "comm_dst": node.peer}
        if node.kind == RECEIVE:
            return {"comm_src": node.peer, "comm_dst": rank}
        own = _size(node.num_bytes / len(node.group)) if node.op == "all-gather" else {}
        group = tuple(sorted(node.group))
        if group != node.group:
            own["root"] = group.index(node.group[0])
        if len(group) == self._num_ranks and self._channel_of_all in (None, node.channel):
            self._channel_of_all = node.channel
        else:
            own["pg_name"] = str(self._groups.setdefault((node.channel, group), len(self._groups) + 1))
        return own


def _messages(tasks: Sequence[GraphTask]) -> list[ProtoMessage]:
    """Return the part of the nodes that all ranks of a stage share."""
    messages, exact_s, micros = [], 0.0, 0
    for node, *_ in tasks:
        attributes: dict[str, Value] = {"is_cpu_op": node.on_host}
        duration = 0
        if node.kind == COMPUTE:
            exact_s += node.seconds
            duration = round(exact_s * 1e6) - micros
            micros += duration
            attributes |= {"num_ops": round(node.flop), "tensor_size": round(node.moved_bytes)}
            attributes |= {"seconds": node.seconds} if duration * 1e-6 != node.seconds else {}
        elif node.kind == COLLECTIVE:
            attributes["comm_type"] = COLLECTIVES.index(node.op)
            attributes |= {} if node.op == "all-gather" else _size(node.num_bytes)
            attributes |= {"algorithm": node.algorithm} if node.algorithm != "auto" else {}
        elif node.kind in (SEND, RECEIVE):
            attributes |= {**_size(node.num_bytes), "comm_tag": node.tag}
        kind = _KINDS.get(node.kind, METADATA)
        messages.append(
            ProtoMessage(node.number, node.name, kind, node.data_deps, node.order_deps, duration, attributes)
        )
    return messages


def _size(num_bytes: float) -> dict[str, Value]:
    """Return a size in whole bytes, and the exact size where it is not whole."""
    whole = round(num_bytes)
    return {"comm_size": whole} if whole == num_bytes else {"comm_size": whole, "num_bytes": num_bytes}
