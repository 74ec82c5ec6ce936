"""One setting of a scenario's axes before it is checked: small, and it can be sent to another process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.learning import LearningSpec
from clustersim.reading import TreeNode, raised, with_files
from clustersim.scenario.point import Point
from clustersim.scenario.spaces import PointSpace
from clustersim.scenario.validate import checked


@dataclass(frozen=True)
class PointTree:
    """One value on every sweep axis: its number in the scenario, the axes, and the keys with their places."""

    number: int
    axes: Mapping[str, Any]
    root: TreeNode

    def point(self) -> Point:
        """Return the training, or raise InputError with all its mistakes, each with file, line and key."""
        point, problems = checked(self.root)
        if point is None or problems:
            raise InputError(problem.mistake for problem in problems)
        return point

    def located(self, error: InputError) -> InputError:
        """Return an error about keys of this point with the file, line and column of each key."""
        return InputError(raised(mistake, (), self.root).mistake for mistake in error.mistakes)

    def learning(self) -> LearningSpec | None:
        """Return what the point trains, without checking its other keys; None if that is nothing or is wrong."""
        node = with_files(self.root).child("learning")
        if node is None:
            return None
        try:
            return LearningSpec.model_validate_json(json.dumps(node.plain()), strict=True)
        except (InputError, ValidationError):
            return None

    @property
    def num_gpus(self) -> int:
        """The number of GPUs that the point asks for; 0 if it is no whole number."""
        return self._whole("num_gpus", 0)

    @property
    def seed(self) -> int:
        """The seed of the point, its default if it is no whole number."""
        return self._whole("seed", Point.model_fields["seed"].default)

    def _whole(self, key: str, default: int) -> int:
        node = self.root.child(key)
        value = None if node is None else node.value
        return value if isinstance(value, int) and not isinstance(value, bool) else default


class PointTrees(Sequence[PointTree]):
    """All settings of a scenario's axes; each is made when it is asked for, and none is kept."""

    def __init__(self, space: PointSpace, root: TreeNode):
        self.space = space
        self._root = root

    def __len__(self) -> int:
        return self.space.size

    @overload
    def __getitem__(self, number: int) -> PointTree: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[PointTree]: ...

    def __getitem__(self, number: int | slice) -> PointTree | Sequence[PointTree]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        place = range(len(self))[number]
        axes, root = self.space.at(place, self._root)
        return PointTree(place, axes, root)
