"""Consecutive compute operations of a rank as one sequence, which is simulated in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clustersim.program.issue import joined
from clustersim.program.ops import FORWARD, UPDATE, Compute, Op


class ComputeSequence:
    """Compute operations without another operation in between; `seconds` [num_ops] at a slowdown of 1.

    `called_s` are the seconds of those that wait for collectives inside them. `issue` says when the host has issued
    them. `binding` are those of its times that can keep the GPU waiting where it is less than twice as fast.
    `last_forward` is the number of the last operation of a forward pass, -1 where there is none.

    >>> sequence = ComputeSequence([Compute("a", 2.0, FORWARD, 0), Compute("b", 1.0, "backward", 0)])
    >>> sequence.total_s, sequence.last_forward, [each.seconds for each in sequence.apart()]
    (3.0, 0, [[2.0], [1.0]])
    """

    __slots__ = ("binding", "called_s", "has_update", "issue", "last_forward", "ops", "seconds", "total_s")

    def __init__(self, ops: Sequence[Compute]):
        self.ops = ops
        self.seconds = [op.seconds for op in ops]
        self.total_s = sum(self.seconds)
        self.called_s = [op.called_s for op in ops if op.called_s]
        self.issue = joined([(op.seconds, op.issue) for op in ops])
        self.binding = self.issue.binding
        self.has_update, self.last_forward = False, -1
        for number, op in enumerate(ops):
            if op.phase == FORWARD:
                self.last_forward = number
            elif op.phase == UPDATE:
                self.has_update = True

    def apart(self) -> Iterator[ComputeSequence]:
        """Return each operation as a sequence of its own."""
        return (ComputeSequence([op]) for op in self.ops)


def merged_computes(ops: Iterable[Op]) -> Iterator[Op | ComputeSequence]:
    """Return operations, with consecutive compute operations as one sequence."""
    pending: list[Compute] = []
    for op in ops:
        if isinstance(op, Compute):
            pending.append(op)
            continue
        if pending:
            yield ComputeSequence(pending)
            pending = []
        yield op
    if pending:
        yield ComputeSequence(pending)
