"""Operations of a rank where a model is laid over several GPUs, and programs of them.

A rank runs its operations one after the other. Ranks with the same stage of a model have the same program. It names
other ranks by their position: the rank in the same place of another stage, or the group along an axis (`Grid` gives
their numbers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.program.issue import NO_ISSUE, IssueTimes, joined
from clustersim.program.token_route import TokenRoute

FORWARD, BACKWARD, WEIGHTS, RECOMPUTE, UPDATE = "forward", "backward", "weights", "recompute", "update"


# Operations are never changed. They are not frozen, because a frozen dataclass takes three times as long to make, and a
# layout has hundreds of thousands of operations.


class Key(NamedTuple):
    """The name of a message or a collective in an iteration, the same for all its members."""

    what: str
    micro_batch: int
    place: int


@dataclass(slots=True, unsafe_hash=True)
class Compute:
    """Occupy the GPU for `seconds` at a slowdown of 1; `phase` is forward, backward, weights, recompute or update.

    `called_s` of these seconds are waits for collectives inside it, whose times are known beforehand. `issue` says when
    the host has issued the kernels.
    """

    name: str
    seconds: float
    phase: str
    micro_batch: int
    called_s: float = 0.0
    issue: IssueTimes = NO_ISSUE


@dataclass(slots=True, unsafe_hash=True)
class Send:
    """Begin to send to the rank of another stage, and go on at once.

    An `awaited` message is sent when both ranks are ready for it, and both wait until it has arrived. The rank sends it
    before its next operation; but it sends gradients only after receiving the activations that come next (DeepSpeed's
    `TrainSchedule`). If it is `paired`, a message that comes next from the same stage is in flight at the same time.
    """

    key: Key
    stage: int
    num_bytes: float
    awaited: bool = False
    paired: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Receive:
    """Wait until a message from the rank of another stage has arrived. An `awaited` one is sent when this waits."""

    key: Key
    stage: int
    num_bytes: float
    awaited: bool = False


class CollectiveOp(NamedTuple):
    """What a collective does, whichever group it is of and whenever it begins; the parts are those of `Call`."""

    op: str
    num_bytes: float
    root: int = 0
    token_route: TokenRoute | None = None


@dataclass(slots=True, unsafe_hash=True)
class Call:
    """Enter a collective of the group along an axis, and go on at once; a group's collectives follow one another.

    `root` is the place in the group of the source of a broadcast, or of the destination of a reduce. The collective
    begins after the one that `after` names, whose result it needs. `known_s` is its duration in seconds, where that is
    known beforehand; it then sends nothing. With `token_route` it is an exchange of tokens with experts, and
    `num_bytes` are those of each token once (`clustersim.collectives.expert_tokens`).
    """

    key: Key
    op: str
    axis: str
    num_bytes: float
    root: int = 0
    after: Key | None = None
    known_s: float | None = None
    token_route: TokenRoute | None = None

    @property
    def operation(self) -> CollectiveOp:
        """What it does: the same for calls in which a group sends the same messages."""
        return CollectiveOp(self.op, self.num_bytes, self.root, self.token_route)

    @property
    def has_root(self) -> bool:
        """Whether one rank does other work than the others, so that they may end at different times."""
        return self.op in ("broadcast", "reduce")


@dataclass(slots=True, unsafe_hash=True)
class Wait:
    """Wait until the rank's part of a collective is done, or an operation that it has begun on its host."""

    key: Key


@dataclass(slots=True, unsafe_hash=True)
class Copy:
    """Begin to copy from GPU memory to the host's, or back, after the operation that `after` names; go on at once.

    Copies in one direction follow one another, as on a GPU's copy engine.
    """

    key: Key
    to_host: bool
    num_bytes: float
    after: Key | None = None


@dataclass(slots=True, unsafe_hash=True)
class HostUpdate:
    """Begin an update by the host's processor that moves `moved_bytes` bytes of memory, and go on at once."""

    key: Key
    moved_bytes: float
    after: Key | None = None


@dataclass(slots=True, unsafe_hash=True)
class Read:
    """Wait until the samples of a pass have been read and decoded, if the rank is the one that reads samples."""

    key: Key


@dataclass(slots=True, unsafe_hash=True)
class Ready:
    """The bucket with this number is ready to be exchanged with the other replicas."""

    bucket: int


@dataclass(slots=True, unsafe_hash=True)
class Pass:
    """One pass of a micro-batch through a chunk of layers.

    Passes share their `body`, the operations of micro-batch 0; only the number of the micro-batch differs. A body of
    two passes that are computed in turn has numbers relative to that of the first.
    """

    body: tuple[Op, ...]
    micro_batch: int

    def ops(self) -> Iterator[Op]:
        """Return the operations of this micro-batch."""
        return (_of_micro_batch(op, self.micro_batch) for op in self.body)


Op = Compute | Send | Receive | Call | Wait | Copy | HostUpdate | Read | Ready


def _of_micro_batch(op: Op, number: int) -> Op:
    """Return an operation of a body for the pass with the micro-batch `number`."""
    match op:
        case Compute(name, seconds, phase, behind, called_s, issue):
            return Compute(name, seconds, phase, behind + number, called_s, issue)
        case Send(key, stage, num_bytes, awaited, paired):
            return Send(_key_of(key, number), stage, num_bytes, awaited, paired)
        case Receive(key, stage, num_bytes, awaited):
            return Receive(_key_of(key, number), stage, num_bytes, awaited)
        case Call(key, what, axis, num_bytes, root, after, known_s, token_route):
            shifted = after and _key_of(after, number)
            return Call(_key_of(key, number), what, axis, num_bytes, root, shifted, known_s, token_route)
        case Wait(key):
            return Wait(_key_of(key, number))
        case Read(key):
            return Read(_key_of(key, number))
        case Copy(key, to_host, num_bytes, after):
            return Copy(_key_of(key, number), to_host, num_bytes, after and _key_of(after, number))
    return op


def _key_of(key: Key, number: int) -> Key:
    """Return a key of a body for the pass with the micro-batch `number`."""
    return Key(key.what, key.micro_batch + number, key.place)


@dataclass(frozen=True)
class Program:
    """One iteration of the ranks of a stage, up to the exchange of its gradients.

    `staleness` is None where an iteration makes one update. Where every micro-batch makes an update, it is the age in
    updates of the weights that a micro-batch uses on this stage. Iterations then flow into one another: a micro-batch
    with a number below 0 belongs to an earlier iteration, and -1 is the last one of the iteration before.

    The host takes `exchange_s` seconds to issue a collective, a copy or the exchange of a bucket, and `message_s` to
    issue that a message is sent or received. With `host_awaits_messages` it then waits until its GPU has done so.
    """

    stage: int
    parts: tuple[Op | Pass, ...]
    staleness: int | None = None
    exchange_s: float = 0.0
    message_s: float = 0.0
    host_awaits_messages: bool = False

    def ops(self) -> Iterator[Op]:
        """Return all operations."""
        for part in self.parts:
            if isinstance(part, Pass):
                yield from part.ops()
            else:
                yield part

    def bodies(self) -> list[tuple[tuple[Op, ...], int]]:
        """Return each body of passes with its number of passes, and last the operations outside of passes, once."""
        passes = [part for part in self.parts if isinstance(part, Pass)]
        count = Counter(id(part.body) for part in passes)
        bodies = {id(part.body): part.body for part in passes}
        rest = tuple(part for part in self.parts if not isinstance(part, Pass))
        return [*((body, count[key]) for key, body in bodies.items()), (rest, 1)]

    def distinct(self) -> Iterator[Op]:
        """Return all operations, with each body of passes only once."""
        return (op for body, _ in self.bodies() for op in body)

    @property
    def num_micro_batches(self) -> int:
        """The number of micro-batches in an iteration."""
        return 1 + max((part.micro_batch for part in self.parts if isinstance(part, Compute | Pass)), default=0)

    def phase_s(self) -> dict[str, float]:
        """Return the seconds of compute in each phase, without the waits inside them."""
        total: dict[str, float] = {}
        for body, times in self.bodies():
            for op in body:
                if isinstance(op, Compute):
                    total[op.phase] = total.get(op.phase, 0.0) + times * (op.seconds - op.called_s)
        return total

    def lines(self) -> list[str]:
        """Return the program as text, one operation a line."""
        return [_line(op) for op in self.ops()]


def merged(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return operations with adjacent compute operations of the same phase and micro-batch as one.

    >>> [op.seconds for op in merged([Compute("a", 1.0, "forward", 0), Compute("b", 2.0, "forward", 0)])]
    [3.0]
    """
    out: list[Op] = []
    run: list[Compute] = []  # computes of the same pass
    for op in ops:
        if isinstance(op, Compute) and (not run or _same_pass(op, run[-1])):
            run.append(op)
            continue
        if run:
            out.append(_as_one(run))
        run = [op] if isinstance(op, Compute) else []
        if not run:
            out.append(op)
    return (*out, _as_one(run)) if run else tuple(out)


def _as_one(run: Sequence[Compute]) -> Compute:
    """Return compute operations of the same pass as one."""
    first = run[0]
    if len(run) == 1:
        return first
    name = f"{first.name.split(' to ')[0]} to {run[-1].name.split(' to ')[-1]}"
    seconds, called_s = sum([op.seconds for op in run]), sum([op.called_s for op in run])
    issue = joined([(op.seconds, op.issue) for op in run])
    return Compute(name, seconds, first.phase, first.micro_batch, called_s, issue)


def _same_pass(one: Compute, other: Compute) -> bool:
    return (one.phase, one.micro_batch) == (other.phase, other.micro_batch)


def _line(op: Op) -> str:
    match op:
        case Compute(name, seconds, phase, micro_batch, called_s):
            within = f", {called_s:.6g} s of it in collectives" if called_s else ""
            return f"compute {phase} {micro_batch} {name}: {seconds:.6g} s{within}"
        case Send(key, stage, num_bytes):
            return f"send {_name(key)} to stage {stage}: {num_bytes:.6g} B{_awaited(op)}"
        case Receive(key, stage, num_bytes):
            return f"receive {_name(key)} from stage {stage}: {num_bytes:.6g} B{_awaited(op)}"
        case Call(key, what, axis, num_bytes, root, after):
            from_or_to = f" from {root}" if what == "broadcast" else f" to {root}" if what == "reduce" else ""
            return f"begin {what} {_name(key)} along {axis}{from_or_to}{_after(after)}: {num_bytes:.6g} B"
        case Wait(key):
            return f"wait for {_name(key)}"
        case Copy(key, to_host, num_bytes, after):
            return f"begin to copy {_name(key)} {'to' if to_host else 'from'} host{_after(after)}: {num_bytes:.6g} B"
        case HostUpdate(key, moved_bytes, after):
            return f"begin {_name(key)}{_after(after)}: {moved_bytes:.6g} B in the host's memory"
        case Read(key):
            return f"read {key.what} {key.micro_batch}"
        case Ready(bucket):
            return f"gradients ready: bucket {bucket}"


def _awaited(op: Send | Receive) -> str:
    if isinstance(op, Send) and op.paired:
        return ", both awaiting it and what comes back"
    return ", both awaiting it" if op.awaited else ""


def _after(after: Key | None) -> str:
    return f" after {_name(after)}" if after else ""


def _name(key: Key) -> str:
    return f"{key.what} {key.micro_batch}.{key.place}"
