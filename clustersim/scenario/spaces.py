"""The points of a sweep as sequences that make each point on demand: memory does not grow with their number.

A space holds the values of some axes. It knows no scenario keys and checks nothing; `axes` finds which lists are axes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any

from clustersim.reading.tree import Path, TreeNode

Axes = dict[str, Any]
"""The setting of a point on each axis: dotted key to value or label."""

IsWrong = Callable[[int], bool]
"""Says whether a setting is known to be wrong."""

Put = Callable[[TreeNode, Path, TreeNode], TreeNode]
"""Returns a tree with a value at a path."""


class PointSpace(ABC):
    """Settings of axes, numbered from 0: the first axis changes slowest."""

    size: int

    @abstractmethod
    def at(self, number: int, root: TreeNode) -> tuple[Axes, TreeNode]:
        """Return the axes of one setting, and the tree with its values in it."""

    @abstractmethod
    def covering(self) -> Iterator[int]:
        """Yield some settings in which each value of each axis occurs at least once."""

    def beside(self, number: int, is_wrong: IsWrong) -> Iterator[int]:
        """Yield a few settings with other values on the axes that are independent of the one that `number` is for.

        They come with, and without, values of which `is_wrong` says so.
        """
        yield from ()


@dataclass(frozen=True)
class NoAxis(PointSpace):
    """The one setting of a tree without axes."""

    size: int = 1

    def at(self, number: int, root: TreeNode) -> tuple[Axes, TreeNode]:
        return {}, root

    def covering(self) -> Iterator[int]:
        yield 0


@dataclass(frozen=True)
class ListAxis(PointSpace):
    """A list of values at a path; after each value come the axes of its own space, which several values may share."""

    key: str
    path: Path
    labels: Sequence[Any]
    elements: Sequence[TreeNode]
    after: Sequence[PointSpace]

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(space.size for space in self.after))

    @property
    def size(self) -> int:  # type: ignore[override]
        return self._ends[-1]

    def at(self, number: int, root: TreeNode) -> tuple[Axes, TreeNode]:
        chosen = bisect_right(self._ends, number)
        space = self.after[chosen]
        axes, tree = space.at(number - self._ends[chosen] + space.size, root.put(self.path, self.elements[chosen]))
        return {self.key: self.labels[chosen], **axes}, tree

    def covering(self) -> Iterator[int]:
        seen: set[int] = set()
        for end, space in zip(self._ends, self.after, strict=True):
            start = end - space.size
            inside = space.covering() if id(space) not in seen else iter((0,))
            seen.add(id(space))
            yield from (start + number for number in inside)


@dataclass(frozen=True)
class Rows(PointSpace):
    """Axes that go together: row `number` has a value for each of the paths."""

    paths: Sequence[Path]
    size: int
    row: Callable[[int], Sequence[tuple[Any, TreeNode]]]
    put: Put
    name: str
    """The key of `sweep` that it comes from; `row` returns the label and the value at each path, `put` sets one."""

    def at(self, number: int, root: TreeNode) -> tuple[Axes, TreeNode]:
        axes: Axes = {}
        for path, (label, node) in zip(self.paths, self.row(number), strict=True):
            axes[".".join(map(str, path))] = label
            root = self.put(root, path, node)
        return axes, root

    def covering(self) -> Iterator[int]:
        yield from range(self.size)


@dataclass(frozen=True)
class AllCombinations(PointSpace):
    """All combinations of independent spaces; the first changes slowest."""

    parts: Sequence[PointSpace]

    @cached_property
    def _strides(self) -> list[int]:
        sizes = [part.size for part in self.parts]
        return [prod(sizes[place + 1 :]) for place in range(len(sizes))]

    @property
    def size(self) -> int:  # type: ignore[override]
        return prod(part.size for part in self.parts)

    def at(self, number: int, root: TreeNode) -> tuple[Axes, TreeNode]:
        axes: Axes = {}
        for part, stride in zip(self.parts, self._strides, strict=True):
            found, root = part.at(number // stride % part.size, root)
            axes |= found
        return axes, root

    def covering(self) -> Iterator[int]:
        yield 0
        for part, stride in zip(self.parts, self._strides, strict=True):
            yield from (number * stride for number in part.covering() if number)

    def beside(self, number: int, is_wrong: IsWrong) -> Iterator[int]:
        digits = [number // stride % part.size for part, stride in zip(self.parts, self._strides, strict=True)]
        kept = [place for place, digit in enumerate(digits) if digit] or range(len(digits))
        for place in kept:
            for share in (1.0, 0.5):
                others = [int(share * (part.size - 1)) for part in self.parts]
                steps = list(zip(others, self._strides, strict=True))
                for values in (others, [0 if is_wrong(digit * stride) else digit for digit, stride in steps]):
                    values[place] = digits[place]
                    yield sum(digit * stride for digit, stride in zip(values, self._strides, strict=True))


@dataclass(frozen=True)
class Cases(PointSpace):
    """Named trees, each with a space of its own."""

    key: str
    names: Sequence[str]
    trees: Sequence[TreeNode]
    spaces: Sequence[PointSpace]

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(space.size for space in self.spaces))

    @property
    def size(self) -> int:  # type: ignore[override]
        return self._ends[-1]

    def at(self, number: int, root: TreeNode) -> tuple[Axes, TreeNode]:
        chosen, inside = self._place(number)
        axes, tree = self.spaces[chosen].at(inside, self.trees[chosen])
        return {self.key: self.names[chosen], **axes}, tree

    def covering(self) -> Iterator[int]:
        for end, space in zip(self._ends, self.spaces, strict=True):
            yield from (end - space.size + number for number in space.covering())

    def beside(self, number: int, is_wrong: IsWrong) -> Iterator[int]:
        chosen, inside = self._place(number)
        start = number - inside
        for other in self.spaces[chosen].beside(inside, lambda each: is_wrong(start + each)):
            yield start + other

    def _place(self, number: int) -> tuple[int, int]:
        """Return which case a number is of, and its number there."""
        chosen = bisect_right(self._ends, number)
        return chosen, number - self._ends[chosen] + self.spaces[chosen].size


@dataclass(frozen=True)
class Selected(PointSpace):
    """Some settings of a space, and among them those in which each value of each axis occurs."""

    space: PointSpace
    numbers: Sequence[int]
    first_of_values: Sequence[int]

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.numbers)

    def at(self, number: int, root: TreeNode) -> tuple[Axes, TreeNode]:
        return self.space.at(self.numbers[number], root)

    def covering(self) -> Iterator[int]:
        yield from self.first_of_values

    def beside(self, number: int, is_wrong: IsWrong) -> Iterator[int]:
        def is_wrong_there(other: int) -> bool:
            place = self._place(other)
            return place is not None and is_wrong(place)

        for other in self.space.beside(self.numbers[number], is_wrong_there):
            place = self._place(other)
            if place is not None:
                yield place

    def _place(self, number: int) -> int | None:
        """Return the number that a setting of the whole space has here; None if it is left out."""
        place = bisect_right(self.numbers, number) - 1
        return place if place >= 0 and self.numbers[place] == number else None
