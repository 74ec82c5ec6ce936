"""An iteration of a rank as a graph: a node begins when the nodes that it depends on are done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.program.iteration import Iteration
from clustersim.program.ops import Call, Compute, Key, Op, Program, Ready, Receive, Send, Wait

SEND_RECV = "send-recv"
"""A collective of two messages for each rank: one to the next rank of its group, one from the rank before."""

COMPUTE, SEND, RECEIVE, COLLECTIVE, NOTHING = "compute", "send", "receive", "collective", "nothing"

BUCKETS = "buckets"
"""The axis of the collectives that add up the gradients of replicas of a stage, one bucket after the other."""


class TaskNode(NamedTuple):
    """One node of a rank's graph. Nodes with the numbers in `data_deps` and `order_deps` must be done before it begins.

    A COMPUTE occupies the rank's GPU, or its host's thread if `on_host`, for `seconds`; it does `flop` and moves
    `moved_bytes`, where these are known. A SEND to the rank `peer` and a RECEIVE from it with the same `tag` are the
    two ends of a message. A COLLECTIVE `op` is among the ranks of `group`; the first of them is the root, if there is
    one. Its buffer has `num_bytes`, and it runs `algorithm`; collectives of a group and a `channel` follow one another.
    A NOTHING is done at once.
    """

    number: int
    kind: str
    name: str
    data_deps: tuple[int, ...] = ()
    order_deps: tuple[int, ...] = ()
    seconds: float = 0.0
    num_bytes: float = 0.0
    peer: int = -1
    tag: int = 0
    op: str = ""
    group: tuple[int, ...] = ()
    channel: str = ""
    algorithm: str = "auto"
    flop: float = 0.0
    moved_bytes: float = 0.0
    on_host: bool = False


class GraphTask(NamedTuple):
    """A node of all ranks of a stage: its `peer` is a stage, and its group lies along `axis`.

    A message along an `axis` goes to the next rank of the group, or comes from the one before, and has no `peer`.
    `root` is the place in the group of the source of a broadcast, or of the destination of a reduce.
    """

    node: TaskNode
    axis: str = ""
    root: int = 0


def in_order(nodes: Sequence[TaskNode]) -> list[TaskNode]:
    """Return nodes in an order in which each follows those that it depends on, else in the given order.

    Raise InputError where dependencies form a cycle.

    >>> [node.number for node in in_order([TaskNode(1, NOTHING, "a", (2,)), TaskNode(2, NOTHING, "b")])]
    [2, 1]
    """
    place_of = {node.number: place for place, node in enumerate(nodes)}
    followers: dict[int, list[int]] = {}
    num_open = []
    for place, node in enumerate(nodes):
        before = {*node.data_deps, *node.order_deps}
        num_open.append(len(before))
        for number in before:
            followers.setdefault(place_of[number], []).append(place)
    free = [place for place, num in enumerate(num_open) if not num]
    out = []
    while free:
        place = heappop(free)
        out.append(nodes[place])
        for follower in followers.get(place, ()):
            num_open[follower] -= 1
            if not num_open[follower]:
                heappush(free, follower)
    if len(out) < len(nodes):
        stuck = next(nodes[place] for place, num in enumerate(num_open) if num)
        message = f"node {stuck.number} '{stuck.name}' waits for itself, by way of those it depends on"
        raise InputError(message, got=str(stuck.number), allowed="dependencies without a circle")
    return out


Work = Callable[[Compute], tuple[float, float]]
"""Returns the FLOP of a compute operation, and the bytes that it moves."""


def tags_of(programs: Collection[Program]) -> dict[Key, int]:
    """Return a number for each message of an iteration, the same for its sender and its receiver."""
    keys = {
        op.key
        for program in programs
        for op in program.ops()
        if isinstance(op, Send) or (isinstance(op, Call) and op.op == SEND_RECV)
    }
    return {key: number for number, key in enumerate(sorted(keys), 1)}


def tasks_of(
    program: Program, iteration: Iteration, algorithm: str, alone: Collection[str], tags: Mapping[Key, int], work: Work
) -> list[GraphTask]:
    """Return the graph of a stage's iteration, from which the graph of each rank is made.

    Compute operations follow the program's order. A send depends on the operations before it, and nothing depends on
    it. So does a collective, which also follows the collective before it along its axis; the operations after a wait
    depend on it. `algorithm` adds up the buckets. Axes along which a rank is `alone` have no collectives. `tags` are
    the numbers of messages, and `work` returns the FLOP and bytes of compute operations.
    """
    builder = _GraphBuilder(iteration, algorithm, alone, tags, work)
    for op in program.ops():
        builder.add(op)
    builder.add_update(iteration.update_s)
    return builder.tasks


class _GraphBuilder:
    """Builds a graph, operation by operation. `_after` are the nodes that the next operation depends on."""

    def __init__(
        self, iteration: Iteration, algorithm: str, alone: Collection[str], tags: Mapping[Key, int], work: Work
    ):
        self.tasks: list[GraphTask] = []
        self._after: tuple[int, ...] = ()
        self._previous: dict[str, tuple[int, ...]] = {}  # the last collective along an axis
        self._begun: dict[Key, tuple[int, ...]] = {}
        self._buckets, self._algorithm, self._alone = iteration.buckets, algorithm, alone
        self._tags, self._work = tags, work
        self._exchanged: tuple[int, ...] = ()  # the collectives of buckets

    def add(self, op: Op) -> None:
        """Add the nodes of an operation."""
        match op:
            case Compute():
                self._compute(op)
            case Send(key, stage, num_bytes):
                self._append(TaskNode(0, SEND, _name(key), num_bytes=num_bytes, peer=stage, tag=self._tags[key]))
            case Receive(key, stage, num_bytes):
                node = TaskNode(0, RECEIVE, _name(key), num_bytes=num_bytes, peer=stage, tag=self._tags[key])
                self._after = (self._append(node),)
            case Call(key, what, axis, num_bytes) if what == SEND_RECV:
                node = TaskNode(0, SEND, _name(key), num_bytes=num_bytes, tag=self._tags[key])
                ends = () if axis in self._alone else (node, node._replace(kind=RECEIVE))
                self._begun[key] = tuple(self._append(end, axis) for end in ends)
            case Call(key, what, axis, num_bytes):
                node = TaskNode(0, COLLECTIVE, _name(key), num_bytes=num_bytes, op=what)
                self._begun[key] = self._collective(node, axis, op.root, self._begun[op.after] if op.after else ())
            case Wait(key):
                self._after = tuple(dict.fromkeys((*self._after, *self._begun.pop(key))))
            case Ready(number):
                bucket = self._buckets[number]
                name, size = f"gradients {bucket.name}", bucket.num_bytes
                node = TaskNode(0, COLLECTIVE, name, num_bytes=size, op="all-reduce", algorithm=self._algorithm)
                self._exchanged += self._collective(node, BUCKETS)

    def add_update(self, seconds: float) -> None:
        """Add the optimizer's update, which waits for all buckets."""
        self._after += self._exchanged
        if seconds:
            self._compute(Compute("update", seconds, "update", 0))

    def _compute(self, op: Compute) -> None:
        flop, moved_bytes = self._work(op)
        name = f"{op.phase} {op.name}, micro-batch {op.micro_batch}" if op.name != op.phase else op.name
        node = TaskNode(0, COMPUTE, name, seconds=op.seconds, flop=flop, moved_bytes=moved_bytes)
        self._after = (self._append(node),)

    def _collective(self, node: TaskNode, axis: str, root: int = 0, inputs: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Add a collective after the one before it along its axis, and after the nodes `inputs` that make its data.

        A rank that is alone along the axis needs no collective: it is done with its inputs.
        """
        if axis in self._alone:
            return inputs
        previous = tuple(number for number in self._previous.get(axis, ()) if number not in (*self._after, *inputs))
        self._previous[axis] = (self._append(node._replace(order_deps=previous), axis, root, inputs),)
        return self._previous[axis]

    def _append(self, node: TaskNode, axis: str = "", root: int = 0, inputs: tuple[int, ...] = ()) -> int:
        """Append a node; return its number, which counts from 1."""
        number, deps = len(self.tasks) + 1, tuple(dict.fromkeys((*self._after, *inputs)))
        self.tasks.append(GraphTask(node._replace(number=number, data_deps=deps), axis, root))
        return number


def _name(key: Key) -> str:
    return f"{key.what}, micro-batch {key.micro_batch}, place {key.place}"
