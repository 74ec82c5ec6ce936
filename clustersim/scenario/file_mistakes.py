"""Finds mistakes of a scenario's file in few of its points: those that do not depend on what the other axes have.

Each value of each axis is checked, in a point that has it or by itself, and a wrong one beside other values of the
other axes too. A mistake of a key by itself is the file's if its point has a value with which no point is right. What
keys are together, and whether a training fits, each point says for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clustersim.errors import Mistake
from clustersim.scenario.duplicates import Axes, listed, stands_at_its_value
from clustersim.scenario.parts import MeasuredRun
from clustersim.scenario.point_tree import PointTrees
from clustersim.scenario.validate import read_keys
from clustersim.scenario.value_alone import ValuesAlone

_TRIED = 300
"""Points that are checked in about half a second; of further ones, numbers are checked by themselves."""

_MOST_AGAIN = 50
"""Wrong points that are tried with other values of other axes, in about a second; nothing is said of further ones."""


@dataclass(frozen=True)
class FileCheck:
    """The mistakes of a file, and the measured runs that all its points share."""

    mistakes: list[Mistake]
    measured: Sequence[MeasuredRun]


def check_file(trees: PointTrees) -> FileCheck:
    """Return the mistakes that a scenario's file has by itself."""
    tried: dict[int, tuple[Axes, list[Mistake]]] = {}
    measured: Sequence[MeasuredRun] | None = None
    for number in _to_try(trees):
        found = _try(trees, number, tried)
        measured = found if measured is None else measured
    wrong = [number for number, (_, mistakes) in tried.items() if mistakes]
    again = _spread(wrong, _MOST_AGAIN)
    for number in again:
        for other in trees.space.beside(number, lambda each: each in tried and bool(tried[each][1])):
            _try(trees, other, tried)
    for number in set(wrong) - set(again):
        del tried[number]
    return FileCheck(_of_file(tried), measured or ())


def _to_try(trees: PointTrees) -> Iterator[int]:
    """Yield points in which each value of each axis occurs, but for those that are right by themselves."""
    covering = sorted(set(trees.space.covering()))
    always = set(_spread(covering, _TRIED))
    values, seen = ValuesAlone(), set[tuple[str, str]]()
    for number in covering:
        if number in always:
            yield number
            continue
        tree = trees[number]
        for axis in tree.axes:
            path = tuple(int(part) if part.isdecimal() else part for part in axis.split("."))
            node = tree.root.at(path)
            value = axis, repr(tree.axes[axis] if node is None else node.plain())
            if value not in seen and not values.is_right(tree.root, path):
                seen.add(value)
                yield number
                break


def _try(trees: PointTrees, number: int, tried: dict[int, tuple[Axes, list[Mistake]]]) -> Sequence[MeasuredRun] | None:
    """Check the keys of a point that was not tried before; return its measured runs if they are right."""
    if number in tried:
        return None
    tree = trees[number]
    point, problems = read_keys(tree.root)
    tried[number] = tree.axes, [problem.mistake for problem in problems]
    return None if point is None else point.measured


def _of_file(tried: dict[int, tuple[Axes, list[Mistake]]]) -> list[Mistake]:
    """Return the mistakes of points with a value of an axis that none of the right points has, each with its values."""
    right = {setting for axes, mistakes in tried.values() if not mistakes for setting in _settings(axes)}
    is_any_right = any(not mistakes for _, mistakes in tried.values())
    counts = Counter(setting for axes, _ in tried.values() for setting in _settings(axes))
    having: dict[Mistake, list[Axes]] = {}
    for axes, mistakes in tried.values():
        for mistake in dict.fromkeys(mistakes):
            having.setdefault(mistake, []).append(axes)
    found = []
    for mistake, points in having.items():
        own = Counter(setting for axes in points for setting in _settings(axes))
        never = [setting for setting in own if setting not in right]
        if len(points) == len(tried) or (not never and not is_any_right):
            found.append(mistake)
        elif never:
            axis, _ = max(never, key=lambda setting: own[setting] / counts[setting])
            values = {repr(axes[axis]): axes[axis] for axes in points if (axis, repr(axes.get(axis))) in never}
            found.append(_at(mistake, axis, list(values.values())))
    return found


def _at(mistake: Mistake, axis: str, values: Sequence[Any]) -> Mistake:
    """Return a mistake that names the values which have it, unless it stands at one of them in the file."""
    where = f"{axis} {listed(values)}"
    is_there = stands_at_its_value(mistake, where)
    return mistake if is_there else replace(mistake, message=f"{mistake.message} (at {where})")


def _settings(axes: Axes) -> Iterator[tuple[str, str]]:
    return ((axis, repr(value)) for axis, value in axes.items())


def _spread(numbers: Sequence[int], at_most: int) -> Sequence[int]:
    """Return all of these numbers, or so many that are spread evenly over them, the first and the last too."""
    if len(numbers) <= at_most:
        return numbers
    return [numbers[place * (len(numbers) - 1) // (at_most - 1)] for place in range(at_most)]
