"""The bars of a timeline's lane: those too short to see joined with neighbours, and what overlaps one iteration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from clustersim.report.words import plural

MICRO_BATCH = ", micro-batch "
"""Stands in a span's name before the number of its micro-batch."""

_PASSES = {"forward": 0, "recompute": 1, "backward": 1, "weights": 2}
"""Which pass a kind of span belongs to; others belong to the one around them."""


@dataclass(frozen=True)
class Mark:
    """One bar: seconds from the start of the iteration; `num_spans` is how many spans it stands for."""

    kind: str
    rank: int
    start_s: float
    end_s: float
    name: str
    cause: str
    num_spans: int = 1


def gathered_marks(marks: Sequence[Mark], least_s: float) -> list[Mark]:
    """Return the marks of one rank where those of a pass that are shorter than `least_s` do not stand alone.

    They and their neighbours of the same pass are drawn as one bar for each kind, one after the other in the order in
    which the kinds first come. No kind gets more or less time by that, and the pass begins and ends when it does.
    """
    return [mark for group in _groups(sorted(marks, key=lambda mark: mark.start_s), least_s) for mark in _bars(group)]


def _groups(marks: Sequence[Mark], least_s: float) -> Iterator[list[Mark]]:
    """Yield marks that are drawn together: of one pass, touching, and short themselves or beside a short one."""
    group: list[Mark] = []
    number = -1
    for mark in marks:
        own = _PASSES.get(mark.kind, number)
        if group and not (_belong(group[-1], mark, least_s) and own == number):
            yield group
            group = []
        group, number = [*group, mark], own
    if group:
        yield group


def _belong(before: Mark, mark: Mark, least_s: float) -> bool:
    ends = [each.name.partition(MICRO_BATCH)[1:] for each in (before, mark)]
    is_short = min(each.end_s - each.start_s for each in (before, mark)) < least_s
    touches = mark.start_s <= before.end_s * (1 + 1e-9)
    return is_short and touches and bool(ends[0][0]) and ends[0] == ends[1]


def _bars(group: list[Mark]) -> Iterator[Mark]:
    """Yield one bar for each kind of some marks."""
    at_s = group[0].start_s
    for kind in dict.fromkeys(mark.kind for mark in group):
        own = [mark for mark in group if mark.kind == kind]
        end_s = at_s + sum(mark.end_s - mark.start_s for mark in own)
        number = sum(mark.num_spans for mark in own)
        name = own[0].name if number == 1 else plural(number, "span") + "".join(own[0].name.partition(MICRO_BATCH)[1:])
        causes = {mark.cause for mark in own}
        cause = own[0].cause if len(causes) == 1 else ""
        yield replace(own[0], start_s=at_s, end_s=end_s, name=name, cause=cause, num_spans=number)
        at_s = end_s


def merged_marks(marks: list[Mark]) -> list[Mark]:
    """Return the marks of one rank with neighbours of one kind that touch made one."""
    return _joined(marks, lambda before, after: True)


def joined_marks(marks: list[Mark], least_s: float) -> list[Mark]:
    """Return the marks of one rank where touching ones of a kind that are together shorter than `least_s` are one."""
    return _joined(marks, lambda before, after: after.end_s - before.start_s < least_s)


def _joined(marks: list[Mark], belong: Callable[[Mark, Mark], bool]) -> list[Mark]:
    joined: dict[str, list[Mark]] = defaultdict(list)
    for mark in sorted(marks, key=lambda mark: mark.start_s):
        before = joined[mark.kind]
        if before and mark.start_s <= before[-1].end_s * (1 + 1e-9) and belong(before[-1], mark):
            last = before[-1]
            number = last.num_spans + mark.num_spans
            name = plural(number, "span") + _same_micro_batch(last.name, mark.name)
            before[-1] = replace(last, end_s=max(last.end_s, mark.end_s), name=name, num_spans=number)
        else:
            before.append(mark)
    return [mark for kind in joined.values() for mark in kind]


def _same_micro_batch(one: str, other: str) -> str:
    """Return the end of two names that says which micro-batch they are of; nothing where that is not the same."""
    ends = [name.partition(MICRO_BATCH)[1:] for name in (one, other)]
    return "".join(ends[0]) if ends[0] == ends[1] else ""


def within_one(marks: Sequence[Mark], iteration_s: float) -> list[Mark]:
    """Return the marks of a rank whose iterations flow into one another within the time of one.

    What comes after its end came before, too, of the iteration before.
    """
    numbers = [int(number) for mark in marks if (number := mark.name.partition(MICRO_BATCH)[2])]
    num_micro = 1 + max(numbers, default=0)
    inside = [replace(mark, end_s=min(mark.end_s, iteration_s)) for mark in marks if mark.start_s < iteration_s]
    outside = [
        replace(
            mark,
            start_s=max(mark.start_s - iteration_s, 0.0),
            end_s=mark.end_s - iteration_s,
            name=_of_iteration_before(mark.name, num_micro),
        )
        for mark in marks
        if mark.end_s > iteration_s * (1 + 1e-9)
    ]
    return [*outside, *inside]


def _of_iteration_before(name: str, num_micro: int) -> str:
    """Return a span's name with the number that its micro-batch had an iteration earlier, which is below 0.

    >>> _of_iteration_before("conv1, micro-batch 3", 4)
    'conv1, micro-batch -1'
    """
    what, between, number = name.partition(MICRO_BATCH)
    return f"{what}{between}{int(number) - num_micro}" if number else name
