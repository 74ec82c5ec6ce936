"""What one rank does when the model is laid over several: a list of operations, each begun when the last one is done.

Ranks that hold the same stage of a model have the same program. It names others by where they stand: the rank of
another stage in the same place, or the group along an axis (`Grid` says who they are).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

FORWARD, BACKWARD, WEIGHTS, RECOMPUTE = "forward", "backward", "weights", "recompute"


class Key(NamedTuple):
    """What a message or a collective of an iteration is called: the same for all that take part in it."""

    what: str
    micro_batch: int
    place: int


@dataclass(frozen=True, slots=True)
class Compute:
    """Occupy the GPU for `seconds` at a slowdown of 1; `phase` is forward, backward, weights, recompute or update.

    `called_s` of them it waits for collectives within, where it is known beforehand how long those take.
    """

    name: str
    seconds: float
    phase: str
    micro_batch: int
    called_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Send:
    """Begin to send to the rank of another stage, and go on at once."""

    key: Key
    stage: int
    num_bytes: float


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait until a message from the rank of another stage is there."""

    key: Key
    stage: int
    num_bytes: float


@dataclass(frozen=True, slots=True)
class Call:
    """Enter a collective of the group along an axis, and go on at once; a group's collectives follow one another."""

    key: Key
    op: str
    axis: str
    num_bytes: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the rank's part of a collective that it has entered is done."""

    key: Key


@dataclass(frozen=True, slots=True)
class Ready:
    """A bucket of gradients is ready for the other replicas: its number."""

    bucket: int


Op = Compute | Send | Receive | Call | Wait | Ready


@dataclass(frozen=True)
class Program:
    """One iteration of the ranks of a stage, up to where its gradients are exchanged."""

    stage: int
    ops: tuple[Op, ...]

    @property
    def compute_s(self) -> float:
        return sum(op.seconds - op.called_s for op in self.ops if isinstance(op, Compute))

    def lines(self) -> list[str]:
        """Return the program as text, one operation a line."""
        return [_line(op) for op in self.ops]


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


def with_timed_calls(ops: Sequence[Op], seconds: Mapping[tuple[str, float], float]) -> tuple[Op, ...]:
    """Return the same operations with collectives along `tensor` that are waited for at once as known time.

    `seconds` are those of a collective by its operation and its bytes; one that is not there stays.
    """
    out: list[Op] = []
    for number, op in enumerate(ops):
        if isinstance(op, Call) and op.axis == "tensor" and (op.op, op.num_bytes) in seconds:
            known_s = seconds[op.op, op.num_bytes]
            pass_of = next(each for each in (*reversed(out), *ops[number:]) if isinstance(each, Compute))
            out.append(Compute(pass_of.name, known_s, pass_of.phase, op.key.micro_batch, known_s))
        elif not (isinstance(op, Wait) and isinstance(out[-1], Compute) and _is_timed(ops[number - 1], op, seconds)):
            out.append(op)
    return merged(out)


def _is_timed(before: Op, wait: Wait, seconds: Mapping[tuple[str, float], float]) -> bool:
    """Say whether what is waited for was begun directly before, and takes a known time."""
    is_its_own = isinstance(before, Call) and before.key == wait.key and before.axis == "tensor"
    return is_its_own and isinstance(before, Call) and (before.op, before.num_bytes) in seconds


def _line(op: Op) -> str:
    match op:
        case Compute(name, seconds, phase, micro_batch, called_s):
            within = f", {called_s:.6g} s of it in collectives" if called_s else ""
            return f"compute {phase} {micro_batch} {name}: {seconds:.6g} s{within}"
        case Send(key, stage, num_bytes):
            return f"send {_name(key)} to stage {stage}: {num_bytes:.6g} B"
        case Receive(key, stage, num_bytes):
            return f"receive {_name(key)} from stage {stage}: {num_bytes:.6g} B"
        case Call(key, what, axis, num_bytes):
            return f"begin {what} {_name(key)} along {axis}: {num_bytes:.6g} B"
        case Wait(key):
            return f"wait for {_name(key)}"
        case Ready(bucket):
            return f"gradients ready: bucket {bucket}"


def _name(key: Key) -> str:
    return f"{key.what} {key.micro_batch}.{key.place}"
