"""Finds mistakes of a scenario's file in few of its points: those that do not depend on what the other axes have.

Each value of each axis is checked in at least one point. A mistake of a key by itself is the file's if every point that
was tried with a value has it. What keys are together, and whether a training fits, each point says for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from clustersim.errors import Mistake
from clustersim.scenario.duplicates import Axes, listed, stands_at_its_value
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
    return FileCheck(_of_file(tried), measured or ())


def _try(trees: PointTrees, number: int, tried: dict[int, tuple[Axes, list[Mistake]]]) -> Sequence[MeasuredRun] | None:
    """Check the keys of a point that was not tried before; return its measured runs if they are right."""
    if number in tried:
        return None
    tree = trees[number]
    point, problems = read_keys(tree.root)
    tried[number] = tree.axes, [problem.mistake for problem in problems]
    return None if point is None else point.measured


def _of_file(tried: dict[int, tuple[Axes, list[Mistake]]]) -> list[Mistake]:
    """Return the mistakes that all points tried with a value of an axis have, each with its values, and those of all."""
    having: dict[tuple[object, ...], list[Axes]] = {}
    for axes, mistakes in tried.values():
        for key in dict.fromkeys(map(_key, mistakes)):
            having.setdefault(key, []).append(axes)
    counts = Counter(setting for axes, _ in tried.values() for setting in _settings(axes))
    found = []
    for mistake in {_key(each): each for _, mistakes in tried.values() for each in mistakes}.values():
        points = having[_key(mistake)]
        own = Counter(setting for axes in points for setting in _settings(axes))
        always = [setting for setting, count in own.items() if count == counts[setting]]
        if len(points) == len(tried):
            found.append(mistake)
        elif always:
            axis = always[0][0]
            values = {repr(axes[axis]): axes[axis] for axes in points if (axis, repr(axes.get(axis))) in always}
            where = f"{axis} {listed(list(values.values()))}"
            is_there = stands_at_its_value(mistake, where)
            found.append(mistake if is_there else replace(mistake, message=f"{mistake.message} (at {where})"))
    return found


def _settings(axes: Axes) -> Iterator[tuple[str, str]]:
    return ((axis, repr(value)) for axis, value in axes.items())


def _key(mistake: Mistake) -> tuple[object, ...]:
    return mistake.file, mistake.line, mistake.column, mistake.key, mistake.message


def _spread(numbers: Sequence[int], at_most: int) -> Sequence[int]:
    """Return all of these numbers, or so many that are spread evenly over them, the first and the last too."""
    if len(numbers) <= at_most:
        return numbers
    return [numbers[place * (len(numbers) - 1) // (at_most - 1)] for place in range(at_most)]
