"""Reads a folder of Chakra traces as graphs of ranks, for simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.interchange.chakra.files import Groups, group_file, trace_files, trace_messages
from clustersim.interchange.chakra.message import VERSIONS, ProtoMessage
from clustersim.interchange.chakra.nodes import RankReader
from clustersim.program.graph import COLLECTIVE, RECEIVE, SEND, TaskNode, in_order

_OF_PYTORCH = frozenset({"rf_id", "fw_parent", "seq_id"})


def read_chakra(
    folder: str | Path,
    groups: str | Path | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
    notes: list[str] | None = None,
) -> list[list[TaskNode]]:
    """Return the graph of every rank of a trace [num_ranks]; raise InputError for what cannot be simulated.

    `folder` has one file `<name>.<rank>.et` (or .json) for each rank, which may be compressed. `groups` is ASTRA-sim's
    file of communicator groups; by default the one JSON file in the folder that is no trace, and the process groups
    that PyTorch writes into a trace. Compute and memory nodes take the recorded time. The bytes of an all-gather are
    those of one rank's part. What is not as recorded is added to `notes`, as sentences.
    """
    files = trace_files(Path(folder))
    known = group_file(Path(folder) if groups is None else Path(groups), len(files))
    graphs = []
    found: dict[str, None] = {}
    for rank, file in enumerate(files):
        graphs.append(_read(file, rank, len(files), known, found))
        on_progress((rank + 1) / len(files))
    if notes is not None:
        notes += found
    _check_messages(graphs, files)
    _check_collectives(graphs, files)
    return graphs


def _read(file: Path, rank: int, num_ranks: int, groups: Groups, notes: dict[str, None]) -> list[TaskNode]:
    reader = RankReader(file, rank, num_ranks, groups)
    version, messages = trace_messages(file)
    num_groups = reader.add_groups(messages)
    nodes = [reader.node(message) for message in messages]
    numbers = Counter(node.number for node in nodes)
    twice = [number for number, times in numbers.items() if times > 1]
    if twice:
        raise reader.error(f"has several nodes with number {twice[0]}")
    for node in nodes:
        for number in node.data_deps:
            if number not in numbers:
                raise reader.error(f"node {node.number} '{node.name}' depends on node {number}, which does not exist")
    if any(number not in numbers for node in nodes for number in node.order_deps) or any(map(_is_of_pytorch, messages)):
        nodes = [node._replace(order_deps=()) for node in nodes]
        notes[
            "Control dependencies are the callers of operators, as PyTorch records them: only data ones are used."
        ] = None
    if version and version not in VERSIONS:
        notes[f"The traces are of version {version[:40]}; nodes are read as of {', '.join(VERSIONS)}."] = None
    if num_groups:
        notes["Groups of ranks are the process groups in the traces."] = None
    if reader.num_host_calls:
        notes["Operators of the host that start communication (is_cpu_op) are no messages, and take no time."] = None
    try:
        return in_order(nodes)
    except InputError as error:
        raise reader.error(str(error)) from None


def _is_of_pytorch(message: ProtoMessage) -> bool:
    """Say whether a node was recorded by PyTorch: its control dependencies then are callers, which Chakra ignores."""
    return bool(message.order_deps) and not _OF_PYTORCH.isdisjoint(message.attributes)


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
