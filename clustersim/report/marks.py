"""Bars of a timeline's lanes: short ones are merged, and overlapping iterations are wrapped into one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from clustersim.report.words import plural

MICRO_BATCH = ", micro-batch "
"""Separator in a span's name before the number of its micro-batch."""

_PASSES = {"forward": 0, "recompute": 1, "backward": 1, "weights": 2}
"""Pass of each kind of span; other kinds belong to the pass around them."""


@dataclass(frozen=True)
class Mark:
    """One bar: seconds from the start of the iteration; `num_spans` is the number of spans it represents."""

    kind: str
    rank: int
    start_s: float
    end_s: float
    name: str
    cause: str
    num_spans: int = 1


def group_short_marks(marks: Sequence[Mark], least_s: float) -> list[Mark]:
    """Return the marks of one rank, with those of a pass that are shorter than `least_s` merged.

    They and their neighbours of the same pass become one bar per kind, in the order in which the kinds first occur, but
    a recomputed forward before the backward of its layers. The time of each kind, and start and end of the pass, do not
    change.
    """
    return [mark for group in _groups(sorted(marks, key=lambda mark: mark.start_s), least_s) for mark in _bars(group)]


def _groups(marks: Sequence[Mark], least_s: float) -> Iterator[list[Mark]]:
    """Yield marks that are merged: of one pass, touching, and short or next to a short one."""
    group: list[Mark] = []
    number = -1
    for mark in marks:
        own = _PASSES.get(mark.kind, number)
        if group and not (_are_merged(group[-1], mark, least_s) and own == number):
            yield group
            group = []
        group, number = [*group, mark], own
    if group:
        yield group


def _are_merged(before: Mark, mark: Mark, least_s: float) -> bool:
    ends = [each.name.partition(MICRO_BATCH)[1:] for each in (before, mark)]
    is_short = min(each.end_s - each.start_s for each in (before, mark)) < least_s
    touches = mark.start_s <= before.end_s * (1 + 1e-9)
    return is_short and touches and bool(ends[0][0]) and ends[0] == ends[1]


def _bars(group: list[Mark]) -> Iterator[Mark]:
    """Yield one bar per kind of mark."""
    at_s = group[0].start_s
    for kind in sorted(dict.fromkeys(mark.kind for mark in group), key=lambda kind: kind != "recompute"):
        own = [mark for mark in group if mark.kind == kind]
        end_s = at_s + sum(mark.end_s - mark.start_s for mark in own)
        number = sum(mark.num_spans for mark in own)
        name = own[0].name if number == 1 else plural(number, "span") + "".join(own[0].name.partition(MICRO_BATCH)[1:])
        causes = {mark.cause for mark in own}
        cause = own[0].cause if len(causes) == 1 else ""
        yield replace(own[0], start_s=at_s, end_s=end_s, name=name, cause=cause, num_spans=number)
        at_s = end_s


def merge_touching_marks(marks: list[Mark]) -> list[Mark]:
    """Return the marks of one rank, with touching neighbours of one kind merged."""
    return _joined(marks, lambda before, after: True)


def merge_short_marks(marks: list[Mark], least_s: float) -> list[Mark]:
    """Return the marks of one rank, with touching ones of a kind merged while they are shorter than `least_s`."""
    return _joined(marks, lambda before, after: after.end_s - before.start_s < least_s)


def _joined(marks: list[Mark], is_merged: Callable[[Mark, Mark], bool]) -> list[Mark]:
    joined: dict[str, list[Mark]] = defaultdict(list)
    for mark in sorted(marks, key=lambda mark: mark.start_s):
        before = joined[mark.kind]
        if before and mark.start_s <= before[-1].end_s * (1 + 1e-9) and is_merged(before[-1], mark):
            last = before[-1]
            number = last.num_spans + mark.num_spans
            name = plural(number, "span") + _same_micro_batch(last.name, mark.name)
            before[-1] = replace(last, end_s=max(last.end_s, mark.end_s), name=name, num_spans=number)
        else:
            before.append(mark)
    return [mark for kind in joined.values() for mark in kind]


def _same_micro_batch(one: str, other: str) -> str:
    """Return the common micro-batch suffix of two names; empty where they differ."""
    ends = [name.partition(MICRO_BATCH)[1:] for name in (one, other)]
    return "".join(ends[0]) if ends[0] == ends[1] else ""


def wrap_into_iteration(marks: Sequence[Mark], iteration_s: float) -> list[Mark]:
    """Return the marks of a rank with overlapping iterations, wrapped into the time of one iteration.

    Marks after its end are shown at its start: the previous iteration has the same ones there.
    """
    numbers = [int(number) for mark in marks if (number := mark.name.partition(MICRO_BATCH)[2])]
    num_micro = 1 + max(numbers, default=0)
    inside = [replace(mark, end_s=min(mark.end_s, iteration_s)) for mark in marks if mark.start_s < iteration_s]
    outside = [
        replace(
            mark,
            start_s=max(mark.start_s - iteration_s, 0.0),
            end_s=mark.end_s - iteration_s,
            name=_previous_iteration_name(mark.name, num_micro),
        )
        for mark in marks
        if mark.end_s > iteration_s * (1 + 1e-9)
    ]
    return [*outside, *inside]


def _previous_iteration_name(name: str, num_micro: int) -> str:
    """Return a span's name with its micro-batch number of one iteration earlier, which is negative.

    >>> _previous_iteration_name("conv1, micro-batch 3", 4)
    'conv1, micro-batch -1'
    """
    what, between, number = name.partition(MICRO_BATCH)
    return f"{what}{between}{int(number) - num_micro}" if number else name
