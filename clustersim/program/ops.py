"""What one rank does when the model is laid over several: a list of operations, each begun when the last one is done.

Ranks that hold the same stage of a model have the same program. It names others by where they stand: the rank of
another stage in the same place, or the group along an axis (`Grid` says who they are).
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Occupy the GPU for `seconds` at a slowdown of 1; `phase` is forward, backward, weights or recompute."""

    name: str
    seconds: float
    phase: str
    micro_batch: int


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
        return sum(op.seconds for op in self.ops if isinstance(op, Compute))

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
        if (
            isinstance(op, Compute)
            and isinstance(last, Compute)
            and (op.phase, op.micro_batch) == (last.phase, last.micro_batch)
        ):
            first = last.name.split(" to ")[0]
            out[-1] = Compute(f"{first} to {op.name}", last.seconds + op.seconds, op.phase, op.micro_batch)
        else:
            out.append(op)
    return tuple(out)


def _line(op: Op) -> str:
    match op:
        case Compute(name, seconds, phase, micro_batch):
            return f"compute {phase} {micro_batch} {name}: {seconds:.6g} s"
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
