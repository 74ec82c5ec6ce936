"""What a rank computes between two things that it does for others: one thing after the other, played at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clustersim.program.ops import FORWARD, UPDATE, Compute, Op


class ComputeSequence:
    """Computes with nothing in between, and how many `seconds` each takes at a slowdown of 1.

    `called_s` are those in which something waits for collectives within. `last_forward` is the number of the last one
    that goes forward, -1 where none does.

    >>> stretch = ComputeSequence([Compute("a", 2.0, FORWARD, 0), Compute("b", 1.0, "backward", 0)])
    >>> stretch.total_s, stretch.last_forward, [each.seconds for each in stretch.apart()]
    (3.0, 0, [[2.0], [1.0]])
    """

    __slots__ = ("called_s", "has_update", "last_forward", "ops", "seconds", "total_s")

    def __init__(self, ops: Sequence[Compute]):
        self.ops = ops
        self.seconds = [op.seconds for op in ops]
        self.total_s = sum(self.seconds)
        self.called_s = [op.called_s for op in ops if op.called_s]
        self.has_update, self.last_forward = False, -1
        for number, op in enumerate(ops):
            if op.phase == FORWARD:
                self.last_forward = number
            elif op.phase == UPDATE:
                self.has_update = True

    def apart(self) -> Iterator[ComputeSequence]:
        """Go through the computes one by one."""
        return (ComputeSequence([op]) for op in self.ops)


def merged_computes(ops: Iterable[Op]) -> Iterator[Op | ComputeSequence]:
    """Go through operations, with computes that follow one another as one."""
    ahead: list[Compute] = []
    for op in ops:
        if isinstance(op, Compute):
            ahead.append(op)
            continue
        if ahead:
            yield ComputeSequence(ahead)
            ahead = []
        yield op
    if ahead:
        yield ComputeSequence(ahead)
