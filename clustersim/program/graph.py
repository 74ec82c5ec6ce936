"""What a rank does in an iteration as a graph: nodes that begin when those they depend on are done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.program.iteration import Iteration
from clustersim.program.ops import Call, Compute, Key, Op, Program, Ready, Receive, Send, Wait

SEND_RECV = "send-recv"
"""A collective that is two messages of each rank: one to the next of its group, one from the rank before."""

COMPUTE, SEND, RECEIVE, COLLECTIVE, NOTHING = "compute", "send", "receive", "collective", "nothing"

BUCKETS = "buckets"
"""Where gradients go that replicas of a stage add up: as an axis of collectives, one bucket after the other."""


class Node(NamedTuple):
    """One node of a rank's graph; `data_deps` and `order_deps` are the numbers of those that are done before it begins.

    A COMPUTE occupies the rank's GPU, or its host's thread if `on_host`, for `seconds`; it does `flop` and moves
    `moved_bytes`, where that is known. A SEND to the rank `peer` and a RECEIVE from it with the same `tag` are the two
    ends of a message. A COLLECTIVE `op` is one of the ranks of `group`, the first of them the root where there is one;
    `num_bytes` is the whole buffer, and `algorithm` how it goes; those of a group and a `channel` follow one another. A
    NOTHING is done at once.
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


class Task(NamedTuple):
    """A node that the ranks of a stage have alike: its `peer` is a stage, and its group lies along `axis`.

    A message along an `axis` is to the next rank of the group, or from the one before, and has no `peer`.
    `root` is the place in the group of the rank that a broadcast comes from, or a reduce goes to.
    """

    node: Node
    axis: str = ""
    root: int = 0


def in_order(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes with each after those it depends on, else as they come; raise InputError where that cannot be.

    >>> [node.number for node in in_order([Node(1, NOTHING, "a", (2,)), Node(2, NOTHING, "b")])]
    [2, 1]
    """
    place = {node.number: at for at, node in enumerate(nodes)}
    followers: dict[int, list[int]] = {}
    num_open = []
    for at, node in enumerate(nodes):
        before = {*node.data_deps, *node.order_deps}
        num_open.append(len(before))
        for number in before:
            followers.setdefault(place[number], []).append(at)
    free = [at for at, num in enumerate(num_open) if not num]
    out = []
    while free:
        at = heappop(free)
        out.append(nodes[at])
        for follower in followers.get(at, ()):
            num_open[follower] -= 1
            if not num_open[follower]:
                heappush(free, follower)
    if len(out) < len(nodes):
        stuck = next(nodes[at] for at, num in enumerate(num_open) if num)
        message = f"node {stuck.number} '{stuck.name}' waits for itself, by way of those it depends on"
        raise InputError(message, got=str(stuck.number), allowed="dependencies without a circle")
    return out


Work = Callable[[Compute], tuple[float, float]]
"""Says how many FLOP a compute does and how many bytes it moves."""


def tags_of(programs: Collection[Program]) -> dict[Key, int]:
    """Return a number for each message of an iteration, the same for both its ends."""
    keys = {
        op.key
        for program in programs
        for op in program.ops()
        if isinstance(op, Send) or (isinstance(op, Call) and op.op == SEND_RECV)
    }
    return {key: number for number, key in enumerate(sorted(keys), 1)}


def tasks_of(
    program: Program, iteration: Iteration, algorithm: str, alone: Collection[str], tags: Mapping[Key, int], work: Work
) -> list[Task]:
    """Return a stage's iteration as a graph of which every rank's is made.

    Computing follows the program's order. A send begins with what was done when its turn came, and nothing follows from
    it. A collective begins so too, but after the one before it along its axis; what waits for it depends on it.
    Buckets are added up by `algorithm`. Axes along which there is nobody else (`alone`) have no collectives.
    """
    drawing = _Drawing(iteration, algorithm, alone, tags, work)
    for op in program.ops():
        drawing.add(op)
    drawing.update(iteration.update_s)
    return drawing.tasks


class _Drawing:
    """Draws a graph, operation by operation; `after` are the nodes that the next operation waits for."""

    def __init__(
        self, iteration: Iteration, algorithm: str, alone: Collection[str], tags: Mapping[Key, int], work: Work
    ):
        self.tasks: list[Task] = []
        self._after: tuple[int, ...] = ()
        self._ahead: dict[str, tuple[int, ...]] = {}  # the last collective along an axis
        self._begun: dict[Key, tuple[int, ...]] = {}
        self._buckets, self._algorithm, self._alone = iteration.buckets, algorithm, alone
        self._tags, self._work = tags, work
        self._exchanged: tuple[int, ...] = ()

    def add(self, op: Op) -> None:
        """Draw an operation."""
        match op:
            case Compute():
                self._compute(op)
            case Send(key, stage, num_bytes):
                self._draw(Node(0, SEND, _name(key), num_bytes=num_bytes, peer=stage, tag=self._tags[key]))
            case Receive(key, stage, num_bytes):
                node = Node(0, RECEIVE, _name(key), num_bytes=num_bytes, peer=stage, tag=self._tags[key])
                self._after = (self._draw(node),)
            case Call(key, what, axis, num_bytes) if what == SEND_RECV:
                node = Node(0, SEND, _name(key), num_bytes=num_bytes, tag=self._tags[key])
                ends = () if axis in self._alone else (node, node._replace(kind=RECEIVE))
                self._begun[key] = tuple(self._draw(end, axis) for end in ends)
            case Call(key, what, axis, num_bytes):
                node = Node(0, COLLECTIVE, _name(key), num_bytes=num_bytes, op=what)
                self._begun[key] = self._collective(node, axis, op.root, self._begun[op.after] if op.after else ())
            case Wait(key):
                self._after = tuple(dict.fromkeys((*self._after, *self._begun.pop(key))))
            case Ready(number):
                bucket = self._buckets[number]
                name, size = f"gradients {bucket.name}", bucket.num_bytes
                node = Node(0, COLLECTIVE, name, num_bytes=size, op="all-reduce", algorithm=self._algorithm)
                self._exchanged += self._collective(node, BUCKETS)

    def update(self, seconds: float) -> None:
        """Draw the optimizer's update, which waits for all buckets."""
        self._after += self._exchanged
        if seconds:
            self._compute(Compute("update", seconds, "update", 0))

    def _compute(self, op: Compute) -> None:
        flop, moved_bytes = self._work(op)
        name = f"{op.phase} {op.name}, micro-batch {op.micro_batch}" if op.name != op.phase else op.name
        node = Node(0, COMPUTE, name, seconds=op.seconds, flop=flop, moved_bytes=moved_bytes)
        self._after = (self._draw(node),)

    def _collective(self, node: Node, axis: str, root: int = 0, made: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Draw a collective behind the one before it along its axis, and behind those that have `made` what it takes.

        One that nobody else is in is done as soon as what it takes is made.
        """
        if axis in self._alone:
            return made
        ahead = tuple(number for number in self._ahead.get(axis, ()) if number not in (*self._after, *made))
        self._ahead[axis] = (self._draw(node._replace(order_deps=ahead), axis, root, made),)
        return self._ahead[axis]

    def _draw(self, node: Node, axis: str = "", root: int = 0, made: tuple[int, ...] = ()) -> int:
        """Note a node down and return its number, of which the first is 1."""
        number, deps = len(self.tasks) + 1, tuple(dict.fromkeys((*self._after, *made)))
        self.tasks.append(Task(node._replace(number=number, data_deps=deps), axis, root))
        return number


def _name(key: Key) -> str:
    return f"{key.what}, micro-batch {key.micro_batch}, place {key.place}"
