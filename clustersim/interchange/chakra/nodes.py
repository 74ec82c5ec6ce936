"""Converts the messages of a rank's trace into nodes for simulation."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.interchange.chakra.files import Groups
from clustersim.interchange.chakra.message import (
    BARRIER,
    COLLECTIVES,
    COMM_COLL,
    COMM_RECV,
    COMM_SEND,
    COMP,
    MEM_LOAD,
    MEM_STORE,
    METADATA,
    REDUCE_SCATTER_BLOCK,
    ProtoMessage,
)
from clustersim.interchange.chakra.process_groups import is_process_groups, process_groups
from clustersim.program.graph import COLLECTIVE, COMPUTE, NOTHING, RECEIVE, SEND, TaskNode

_DEFAULT = ("", "0")  # names of the group of all ranks
_COMMUNICATION = (COMM_SEND, COMM_RECV, COMM_COLL)
_ALL_DIMENSIONS = "involved_dim"


class RankReader:
    """Converts the messages of one rank into nodes; `num_host_calls` are the host's calls of collectives."""

    def __init__(self, file: Path, rank: int, num_ranks: int, groups: Groups):
        self._file, self._rank, self._num_ranks, self._groups = file, rank, num_ranks, dict(groups)
        self.num_host_calls = 0

    def error(self, message: str, got: str | None = None, allowed: str | None = None) -> InputError:
        """Return an error of this file."""
        return InputError(Mistake(message, file=str(self._file), got=got, allowed=allowed))

    def add_groups(self, messages: Sequence[ProtoMessage]) -> int:
        """Add the process groups that the trace has; those of a file go first. Return how many were added."""
        num_known = len(self._groups)
        for message in filter(is_process_groups, messages):
            try:
                found = process_groups(message, self._num_ranks)
            except ValueError as error:
                raise self.error(f"node {message.number} '{message.name}': {error}; give --groups FILE") from None
            self._groups = {**found, **self._groups}
        return len(self._groups) - num_known

    def node(self, message: ProtoMessage) -> TaskNode:
        """Return a message as a node; a call of the host that starts communication is no message."""
        node = TaskNode(message.number, NOTHING, message.name, message.data_deps, message.order_deps)
        if message.kind in (COMP, MEM_LOAD, MEM_STORE):
            return self._compute(node, message)
        if message.kind in _COMMUNICATION and message.attributes.get("is_cpu_op") is True:
            self.num_host_calls += 1
            return node
        if message.kind in (COMM_SEND, COMM_RECV):
            return self._message(node, message)
        if message.kind == COMM_COLL:
            return self._collective(node, message)
        if message.kind != METADATA:
            text = f"node {node.number} '{node.name}' has the type {message.kind}"
            raise self.error(text, str(message.kind), "1 to 7, as in Chakra's schema")
        return node

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
        if other not in message.attributes:
            text = f"node {node.number} '{node.name}' has no {other}; Chakra's converter leaves the peers of PyTorch's"
            raise self.error(f"{text} sends and receives out", "nothing", "a number")
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
        op = self._op(message)
        if not all(message.lists.get(_ALL_DIMENSIONS, ())):
            text = f"node {node.number} '{node.name}' runs along some dimensions of the network only (involved_dim)"
            raise self.error(f"{text}; give its group of ranks as pg_name", "involved_dim", "all dimensions")
        name, group = self._group(message)
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

    def _op(self, message: ProtoMessage) -> str:
        number = int(self._number(message, "comm_type", None))
        if number in (REDUCE_SCATTER_BLOCK, BARRIER):
            return "reduce-scatter" if number == REDUCE_SCATTER_BLOCK else "barrier"
        if not 0 <= number < len(COLLECTIVES):
            text = f"node {message.number} '{message.name}' has the comm_type {number}"
            raise self.error(text, str(number), f"0 to {BARRIER}")
        return COLLECTIVES[number]

    def _group(self, message: ProtoMessage) -> tuple[str, tuple[int, ...]]:
        """Return the name and the ranks of a collective's group: `pg_name`, or `comm_group` with a name or ranks."""
        ranks = message.lists.get("comm_group")
        if ranks is not None:
            own = tuple(rank for rank in ranks if type(rank) is int and 0 <= rank < self._num_ranks)
            if len(set(own)) < len(ranks):
                text = f"node {message.number} '{message.name}' has a comm_group that is no list of ranks"
                raise self.error(text, str(ranks)[:60], f"ranks below {self._num_ranks}")
            return ",".join(map(str, own)), own
        value = message.attributes.get("pg_name", message.attributes.get("comm_group", ""))
        name = str(int(value) if isinstance(value, float) and value.is_integer() else value)
        if name not in self._groups and name in _DEFAULT:
            return "", tuple(range(self._num_ranks))
        group = self._groups.get(name)
        if group is None:
            text = f"node {message.number} '{message.name}' is in group '{name}', which is not in the file of groups"
            raise self.error(text, got=name, allowed=", ".join(self._groups) or "a file of groups (--groups)")
        return ("" if name in _DEFAULT else name), group

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
