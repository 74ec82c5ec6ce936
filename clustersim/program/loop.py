"""Finds the loop of a program: cycles of passes that repeat those of the cycle before for later micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from clustersim.program.ops import Call, Compute, Copy, HostUpdate, Key, Op, Pass, Program, Read, Ready, Send, Wait

_MAX_LENGTHS = 64  # lengths of a cycle that are tried


class Loop(NamedTuple):
    """`num_cycles` cycles of `num_parts` parts of a program each; a cycle is `step` micro-batches after the one before.

    `first` is the number of parts of the program before the loop.
    """

    first: int
    num_parts: int
    num_cycles: int
    step: int

    @property
    def end(self) -> int:
        """The number of parts of the program up to the end of the loop."""
        return self.first + self.num_cycles * self.num_parts

    def cycle(self, number: int) -> range:
        """Return the numbers of the parts of the program in a cycle."""
        first = self.first + number * self.num_parts
        return range(first, first + self.num_parts)


def loop_of(program: Program) -> Loop | None:
    """Return the longest loop around the middle pass of a program; None where nothing repeats there.

    >>> one, other = (Compute("a", 1.0, "forward", 0),), (Compute("a", 2.0, "backward", 0),)
    >>> passes = [each for number in range(5) for each in (Pass(one, number + 1), Pass(other, number))]
    >>> loop_of(Program(0, (Pass(one, 0), *passes, Pass(other, 5))))
    Loop(first=1, num_parts=2, num_cycles=5, step=1)
    """
    bodies, numbers = _columns(program)
    passes = np.flatnonzero(bodies >= 0)
    if program.staleness is not None or not len(passes):
        return None
    middle = int(passes[len(passes) // 2])
    lengths = np.flatnonzero(bodies[middle + 1 :] == bodies[middle])[:_MAX_LENGTHS] + 1
    found = [_around(bodies, numbers, middle, length) for length in lengths.tolist()]
    loops = [loop for loop in found if loop.step > 0]
    return max(loops, key=lambda loop: (loop.num_cycles * loop.num_parts, -loop.num_parts), default=None)


def _columns(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each part's body, below 0 for parts that are no passes, and its micro-batch [num_parts]."""
    known: dict[int, int] = {}
    bodies, numbers = np.arange(-1, -1 - len(program.parts), -1), np.zeros(len(program.parts), dtype=np.int64)
    for place, part in enumerate(program.parts):
        if isinstance(part, Pass):
            bodies[place] = known.setdefault(id(part.body), len(known))
            numbers[place] = part.micro_batch
    return bodies, numbers


def _around(bodies: np.ndarray, numbers: np.ndarray, middle: int, length: int) -> Loop:
    """Return the loop around the part `middle` whose cycles have `length` parts."""
    steps = numbers[length:] - numbers[:-length]
    step = int(steps[middle])
    differs = np.flatnonzero((bodies[length:] != bodies[:-length]) | (steps != step))
    after = int(np.searchsorted(differs, middle))
    first = int(differs[after - 1]) + 1 if after else 0
    end = int(differs[after]) if after < len(differs) else len(steps)
    return Loop(first, length, (end - first) // length + 1, step)


def early_cycles(program: Program, loop: Loop, first_late: int) -> Loop:
    """Return a loop without the cycles that send messages of the micro-batch `first_late` or later."""
    passes = _passes(program, loop)
    sent = [each.micro_batch for each in passes if any(isinstance(op, Send) for op in each.body)]
    if not sent:
        return loop
    num_early = (first_late - 1 - max(sent)) // loop.step + 1
    return loop._replace(num_cycles=max(0, min(loop.num_cycles, num_early)))


def after_cycles(program: Program, loop: Loop, num_skipped: int) -> Iterator[Op]:
    """Return the operations after a loop as they are with `num_skipped` cycles fewer: with lower micro-batch numbers.

    Waits at the end for each micro-batch are dropped for the skipped ones. Operations of the whole iteration have
    number 0, and keep it.
    """
    shift = num_skipped * loop.step
    first = max(1, min(each for part in _passes(program, loop) for each in _micro_batches(part)))
    for part in program.parts[loop.end :]:
        if isinstance(part, Pass):
            yield from Pass(part.body, part.micro_batch - shift).ops()
        elif not shift:
            yield part
        elif not (isinstance(part, Wait) and first <= part.key.micro_batch < first + shift):
            yield _renumbered(part, first, shift)


def _renumbered(op: Op, first: int, shift: int) -> Op:
    """Return an operation with a micro-batch number lowered by `shift`, unless it is below `first`."""

    def lower(key: Key) -> Key:
        return key if key.micro_batch < first else key._replace(micro_batch=key.micro_batch - shift)

    match op:
        case Ready():
            return op
        case Compute(micro_batch=number):
            return op if number < first else replace(op, micro_batch=number - shift)
        case Wait(key):
            return Wait(lower(key))
        case Call(key, _, _, _, _, after) | Copy(key, _, _, after) | HostUpdate(key, _, after):
            return replace(op, key=lower(key), after=after and lower(after))
        case Read(key):
            return Read(lower(key))
    return replace(op, key=lower(op.key))


def _micro_batches(each: Pass) -> Iterator[int]:
    """Yield the micro-batches of a pass: two where a forward and a backward pass are computed in turn."""
    yield each.micro_batch
    yield from (each.micro_batch + op.micro_batch for op in each.body if isinstance(op, Compute))


def _passes(program: Program, loop: Loop) -> list[Pass]:
    """Return the passes of the first cycle."""
    return [part for number in loop.cycle(0) if isinstance(part := program.parts[number], Pass)]
