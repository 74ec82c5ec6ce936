"""What one rank does when the model is laid over several: a list of operations, each begun when the last one is done.

Ranks that hold the same stage of a model have the same program. It names others by where they stand: the rank of
another stage in the same place, or the group along an axis (`Grid` says who they are).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

FORWARD, BACKWARD, WEIGHTS, RECOMPUTE, UPDATE = "forward", "backward", "weights", "recompute", "update"


# Nobody writes to an operation. That is not enforced, since a frozen one takes three times as long to make, and a
# layout has hundreds of thousands of them.


class Key(NamedTuple):
    """What a message or a collective of an iteration is called: the same for all that take part in it."""

    what: str
    micro_batch: int
    place: int


@dataclass(slots=True, unsafe_hash=True)
class Compute:
    """Occupy the GPU for `seconds` at a slowdown of 1; `phase` is forward, backward, weights, recompute or update.

    `called_s` of them it waits for collectives within, where it is known beforehand how long those take.
    """

    name: str
    seconds: float
    phase: str
    micro_batch: int
    called_s: float = 0.0


@dataclass(slots=True, unsafe_hash=True)
class Send:
    """Begin to send to the rank of another stage, and go on at once.

    Where it is `awaited`, the message sets off when both ranks are there, and both wait until it has arrived. The rank
    sends it before what comes next, but gradients after the activations that come next (DeepSpeed's `TrainSchedule`).
    Where it is `paired`, a message that comes next from the same stage is on its way at the same time.
    """

    key: Key
    stage: int
    num_bytes: float
    awaited: bool = False
    paired: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Receive:
    """Wait until a message from the rank of another stage is there; where it is `awaited`, that waits for this rank."""

    key: Key
    stage: int
    num_bytes: float
    awaited: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Call:
    """Enter a collective of the group along an axis, and go on at once; a group's collectives follow one another.

    `root` is the place in the group of the rank that a broadcast comes from, or a reduce goes to. What another
    collective makes, which `after` names, has to be there before it begins. `known_s` is how long it takes, where that
    is known beforehand and nothing is sent.
    """

    key: Key
    op: str
    axis: str
    num_bytes: float
    root: int = 0
    after: Key | None = None
    known_s: float | None = None

    @property
    def has_root(self) -> bool:
        """Whether one rank does something else than the others, who need not be done when it is."""
        return self.op in ("broadcast", "reduce")


@dataclass(slots=True, unsafe_hash=True)
class Wait:
    """Wait until the rank's part of a collective that it has entered is done, or what it has begun on its host."""

    key: Key


@dataclass(slots=True, unsafe_hash=True)
class Copy:
    """Begin to copy from GPU memory to the host's, or back, once what `after` names is done, and go on at once.

    Copies of a direction follow one another, as on a GPU's copy engine.
    """

    key: Key
    to_host: bool
    num_bytes: float
    after: Key | None = None


@dataclass(slots=True, unsafe_hash=True)
class HostUpdate:
    """Let the host's processor begin an update that moves so many bytes, and go on at once."""

    key: Key
    moved_bytes: float
    after: Key | None = None


@dataclass(slots=True, unsafe_hash=True)
class Read:
    """Wait until the samples of a pass have been read and decoded, where the rank is the one that asks for them."""

    key: Key


@dataclass(slots=True, unsafe_hash=True)
class Ready:
    """A bucket of gradients is ready for the other replicas: its number."""

    bucket: int


@dataclass(slots=True, unsafe_hash=True)
class Pass:
    """One pass of a micro-batch through a chunk: the same operations as those of others, but for its number.

    The keys and micro-batches in `body` are those of micro-batch 0.
    """

    body: tuple[Op, ...]
    micro_batch: int

    def ops(self) -> Iterator[Op]:
        """Go through the operations of this micro-batch."""
        return (_of_micro_batch(op, self.micro_batch) for op in self.body)


Op = Compute | Send | Receive | Call | Wait | Copy | HostUpdate | Read | Ready


def _of_micro_batch(op: Op, number: int) -> Op:
    """Return the operation of another micro-batch than 0."""
    match op:
        case Compute(name, seconds, phase, _, called_s):
            return Compute(name, seconds, phase, number, called_s)
        case Send(key, stage, num_bytes, awaited, paired):
            return Send(Key(key.what, number, key.place), stage, num_bytes, awaited, paired)
        case Receive(key, stage, num_bytes, awaited):
            return Receive(Key(key.what, number, key.place), stage, num_bytes, awaited)
        case Call(key, what, axis, num_bytes, root, after, known_s):
            behind = after and after._replace(micro_batch=number)
            return Call(Key(key.what, number, key.place), what, axis, num_bytes, root, behind, known_s)
        case Wait(key):
            return Wait(Key(key.what, number, key.place))
        case Read(key):
            return Read(Key(key.what, number, key.place))
        case Copy(key, to_host, num_bytes, after):
            return Copy(
                key._replace(micro_batch=number), to_host, num_bytes, after and after._replace(micro_batch=number)
            )
    return op


@dataclass(frozen=True)
class Program:
    """One iteration of the ranks of a stage, up to where its gradients are exchanged.

    Where every micro-batch is an update of its own, `staleness` is how many updates old the weights are that a
    micro-batch meets on this stage, and None where all of an iteration make one update. Iterations then flow into one
    another: a micro-batch with a number below 0 is one of those before, -1 the last one of the iteration before.
    """

    stage: int
    parts: tuple[Op | Pass, ...]
    staleness: int | None = None

    def ops(self) -> Iterator[Op]:
        """Go through all operations."""
        for part in self.parts:
            if isinstance(part, Pass):
                yield from part.ops()
            else:
                yield part

    def bodies(self) -> list[tuple[tuple[Op, ...], int]]:
        """Return the operations of passes that are alike and how many those are, and what is in no such pass."""
        passes = [part for part in self.parts if isinstance(part, Pass)]
        count = Counter(id(part.body) for part in passes)
        bodies = {id(part.body): part.body for part in passes}
        rest = tuple(part for part in self.parts if not isinstance(part, Pass))
        return [*((body, count[key]) for key, body in bodies.items()), (rest, 1)]

    def distinct(self) -> Iterator[Op]:
        """Go through all operations, but only once through those of passes that are alike."""
        return (op for body, _ in self.bodies() for op in body)

    @property
    def num_micro_batches(self) -> int:
        return 1 + max((part.micro_batch for part in self.parts if isinstance(part, Compute | Pass)), default=0)

    def phase_s(self) -> dict[str, float]:
        """Return the seconds that each phase computes."""
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
    """Return the same operations with neighbours that compute for the same pass of a micro-batch as one.

    >>> [op.seconds for op in merged([Compute("a", 1.0, "forward", 0), Compute("b", 2.0, "forward", 0)])]
    [3.0]
    """
    out: list[Op] = []
    for op in ops:
        last = out[-1] if out else None
        if isinstance(op, Compute) and isinstance(last, Compute) and _same_pass(op, last):
            first, end = last.name.split(" to ")[0], op.name.split(" to ")[-1]
            seconds, called_s = last.seconds + op.seconds, last.called_s + op.called_s
            out[-1] = Compute(f"{first} to {end}", seconds, op.phase, op.micro_batch, called_s)
        else:
            out.append(op)
    return tuple(out)


def _same_pass(one: Compute, other: Compute) -> bool:
    return (one.phase, one.micro_batch) == (other.phase, other.micro_batch)


_OUTSIDE = Key("what is under way", 0, 0)
"""Something that began before a pass, and that nothing in the pass waits for."""

_APART = Key("what has let ranks come apart", 0, 0)
"""That has been waited for, and no collective of those who split layers has brought them together since."""


def with_timed_calls(
    program: Program,
    seconds: Mapping[tuple[str, float], float],
    alone_only: bool = False,
    slowed: bool = False,
    in_step: bool = True,
) -> Program:
    """Return the same program with collectives along `tensor` as the known time that they are waited for.

    Between one and the wait for it there is nothing but compute, beside which it is. `seconds` are those of a
    collective by its operation and its bytes; one that is not there stays. With `alone_only`, so does one beside which
    something that copies exchange may be under way: a collective along another axis until the wait for it, a bucket
    until the end of the iteration. Where that has compute `slowed`, but nothing else, such a one is a collective of
    known time. Nothing is waited for in a pass that has not begun in it.

    Ranks that are not `in_step` have what copies exchange, and what other stages send, at times of their own. They are
    together when a collective along `tensor` is over: the first one after they have waited for any of that stays, and
    so do all beside which what copies exchange may be under way.
    """
    watched = alone_only or slowed or not in_step
    if watched and program.staleness is not None:  # what copies exchange may outlast an iteration
        return program
    known = _Known(seconds, watched, alone_only or not in_step, in_step)
    under_way: set[Key] = set() if in_step else {_APART}
    bodies: dict[tuple[int, bool, bool], tuple[tuple[Op, ...], set[Key]]] = {}  # of passes alike, and what they leave
    parts: list[Op | Pass] = []
    plain: list[Op] = []
    for part in program.parts:
        if not isinstance(part, Pass):
            plain.append(part)
            continue
        parts += known.timed(plain, under_way)
        plain = []
        is_apart, outside = _APART in under_way, bool(under_way - {_APART})
        alike = id(part.body), is_apart, outside
        if alike not in bodies:
            left = {_APART} & under_way | ({_OUTSIDE} if outside else set())
            bodies[alike] = known.timed(part.body, left), left - {_OUTSIDE}
        body, left = bodies[alike]
        parts.append(Pass(body, part.micro_batch))
        under_way -= {_APART}
        under_way |= {key if key == _APART else key._replace(micro_batch=part.micro_batch) for key in left}
    return replace(program, parts=(*parts, *known.timed(plain, under_way)))


@dataclass(frozen=True)
class _Known:
    """What is known of collectives along `tensor`, and whether it matters what copies exchange beside them."""

    seconds: Mapping[tuple[str, float], float]
    watched: bool
    alone_only: bool
    in_step: bool

    def timed(self, ops: Sequence[Op], under_way: set[Key]) -> tuple[Op, ...]:
        """Return operations with known collectives as time; keep what copies exchange in `under_way`."""
        out: list[Op] = []
        number = 0
        while number < len(ops):
            op = ops[number]
            number += 1
            if not (isinstance(op, Call) and op.axis == "tensor" and (op.op, op.num_bytes) in self.seconds):
                out.append(op)
                comes_apart = _waits_for_a_stage(op) or (self.watched and _note_exchange(op, under_way))
                if comes_apart and not self.in_step:
                    under_way.add(_APART)
                continue
            known_s = self.seconds[op.op, op.num_bytes]
            if under_way:
                out.append(op if self.alone_only else replace(op, known_s=known_s))
                under_way.discard(_APART)
                continue
            meanwhile = list(takewhile(lambda each: isinstance(each, Compute), ops[number:]))
            number += len(meanwhile) + 1
            out += meanwhile
            left_s = known_s - sum(each.seconds for each in meanwhile if isinstance(each, Compute))
            if left_s > 0:
                beside = next((each for each in (*out[:-4:-1], *ops[number:]) if isinstance(each, Compute)), None)
                name, phase = (beside.name, beside.phase) if beside else (op.key.what, FORWARD)
                out.append(Compute(name, left_s, phase, op.key.micro_batch, left_s))
        return merged(out)


def _note_exchange(op: Op, under_way: set[Key]) -> bool:
    """Note that copies begin to exchange something, or have waited for it; return whether they have."""
    match op:
        case Ready(bucket):
            under_way.add(Key("bucket", 0, bucket))
        case Call(key, _, axis) if axis != "tensor":
            under_way.add(key)
        case Wait(key) if key in under_way:
            under_way.discard(key)
            return True
    return False


def _waits_for_a_stage(op: Op) -> bool:
    """Say whether a rank waits for one of another stage."""
    return isinstance(op, Receive) or (isinstance(op, Send) and op.awaited)


def _line(op: Op) -> str:
    match op:
        case Compute(name, seconds, phase, micro_batch, called_s):
            within = f", {called_s:.6g} s of it in collectives" if called_s else ""
            return f"compute {phase} {micro_batch} {name}: {seconds:.6g} s{within}"
        case Send(key, stage, num_bytes):
            return f"send {_name(key)} to stage {stage}: {num_bytes:.6g} B{_together(op)}"
        case Receive(key, stage, num_bytes):
            return f"receive {_name(key)} from stage {stage}: {num_bytes:.6g} B{_together(op)}"
        case Call(key, what, axis, num_bytes, root, after):
            rooted = f" from {root}" if what == "broadcast" else f" to {root}" if what == "reduce" else ""
            return f"begin {what} {_name(key)} along {axis}{rooted}{_behind(after)}: {num_bytes:.6g} B"
        case Wait(key):
            return f"wait for {_name(key)}"
        case Copy(key, to_host, num_bytes, after):
            return f"begin to copy {_name(key)} {'to' if to_host else 'from'} host{_behind(after)}: {num_bytes:.6g} B"
        case HostUpdate(key, moved_bytes, after):
            return f"begin {_name(key)}{_behind(after)}: {moved_bytes:.6g} B in the host's memory"
        case Read(key):
            return f"read {key.what} {key.micro_batch}"
        case Ready(bucket):
            return f"gradients ready: bucket {bucket}"


def _together(op: Send | Receive) -> str:
    if isinstance(op, Send) and op.paired:
        return ", both awaiting it and what comes back"
    return ", both awaiting it" if op.awaited else ""


def _behind(after: Key | None) -> str:
    return f" after {_name(after)}" if after else ""


def _name(key: Key) -> str:
    return f"{key.what} {key.micro_batch}.{key.place}"
