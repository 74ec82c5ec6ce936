"""Finds mistakes of a scenario's file in few of its points: those that do not depend on what the other axes have.

Each value of each axis is checked in at least one point. A mistake of a key by itself is the file's if every point that
was tried with a value has it. What keys are together, and whether a training fits, each point says for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clustersim.errors import Mistake
from clustersim.scenario.duplicates import Axes, merge_duplicates
from clustersim.scenario.parts import MeasuredRun
from clustersim.scenario.point_tree import PointTrees
from clustersim.scenario.validate import read_keys

_MOST_TRIED = 300
_MOST_AGAIN = 50


@dataclass(frozen=True)
class FileCheck:
    """The mistakes of a file, and the measured runs that all its points share."""

    mistakes: list[Mistake]
    measured: Sequence[MeasuredRun]


def check_file(trees: PointTrees) -> FileCheck:
    """Return the mistakes that a scenario's file has by itself; at most a few hundred points are looked at."""
    tried: dict[int, tuple[Axes, list[Mistake]]] = {}
    measured: Sequence[MeasuredRun] | None = None
    for number in _spread(sorted(set(trees.space.covering())), _MOST_TRIED):
        found = _try(trees, number, tried)
        measured = found if measured is None else measured
    wrong = [number for number, (_, mistakes) in tried.items() if mistakes]
    for number in _spread(wrong, _MOST_AGAIN):
        for other in trees.space.beside(number):
            _try(trees, other, tried)
    found = [(tried[number][0], list(_of_file(number, tried))) for number in sorted(tried)]
    return FileCheck(merge_duplicates(found), measured or ())


def _try(trees: PointTrees, number: int, tried: dict[int, tuple[Axes, list[Mistake]]]) -> Sequence[MeasuredRun] | None:
    """Check the keys of a point that was not tried before; return its measured runs if they are right."""
    if number in tried:
        return None
    tree = trees[number]
    point, problems = read_keys(tree.root)
    tried[number] = tree.axes, [problem.mistake for problem in problems]
    return None if point is None else point.measured


def _of_file(number: int, tried: dict[int, tuple[Axes, list[Mistake]]]) -> Iterator[Mistake]:
    """Yield the mistakes of a point that all points tried with the same value on one of its axes have."""
    axes, mistakes = tried[number]
    for mistake in mistakes:
        having = [_key(mistake) in map(_key, found) for _, found in tried.values()]
        for axis, value in axes.items():
            with_value = [each for each, (others, _) in zip(having, tried.values(), strict=True) if axis in others and others[axis] == value]
            if all(with_value):
                yield mistake
                break
        else:
            if all(having):
                yield mistake


def _key(mistake: Mistake) -> tuple[object, ...]:
    return mistake.file, mistake.line, mistake.column, mistake.key, mistake.message


def _spread(numbers: Sequence[int], at_most: int) -> Sequence[int]:
    """Return all of these numbers, or so many that are spread evenly over them, the first and the last too."""
    if len(numbers) <= at_most:
        return numbers
    return [numbers[place * (len(numbers) - 1) // (at_most - 1)] for place in range(at_most)]
