"""A scenario that was read: its points, valid all of them unless it was read otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from clustersim.errors import InputError
from clustersim.reading import TreeNode, raised
from clustersim.scenario.anchors import AnchorPoint
from clustersim.scenario.point import Point
from clustersim.scenario.point_tree import PointTree


class SweepPoint(NamedTuple):
    """One value on every sweep axis (dotted key to value or label), and the training with these values."""

    axes: dict[str, Any]
    point: Point


class Scenario:
    """A scenario with all its points; it has one point if it has no sweep axis.

    A key that all points share can be read from the scenario itself: `scenario.seed`. `raw` is the scenario as
    written, with `extends` merged and overrides applied, as plain maps, lists and scalars. `name` is the name to
    use if the scenario gives none.
    """

    name: str
    raw: dict[str, Any]
    file: str | None

    def __init__(
        self,
        name: str,
        root: TreeNode,
        trees: Sequence[PointTree],
        anchors: Sequence[AnchorPoint] = (),
        points: Sequence[SweepPoint] | None = None,
    ):
        self.raw = root.plain()
        self.name = str(self.raw.get("name") or name)
        self.file = root.place.file
        self._root = root
        self._trees = trees
        self._checked = None if points is None else list(points)
        self._anchors = tuple(anchors)

    def trees(self) -> Sequence[PointTree]:
        """Return every setting of the axes, valid or not; the first axis in the file changes slowest."""
        return self._trees

    def points(self) -> list[SweepPoint]:
        """Return one point for every setting of the axes, or raise InputError if one is not valid."""
        return list(self._points)

    @property
    def _points(self) -> list[SweepPoint]:
        if self._checked is None:
            self._checked = [SweepPoint(dict(tree.axes), tree.point()) for tree in self._trees]
        return self._checked

    @property
    def anchors(self) -> tuple[AnchorPoint, ...]:
        """The measured runs that anchor the forecasts, each with its own point; all points have the same."""
        return self._anchors

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The values of each sweep axis, in the order they were written."""
        values: dict[str, list[Any]] = {}
        for tree in self._trees:
            for key, value in tree.axes.items():
                if value not in values.setdefault(key, []):
                    values[key].append(value)
        return values

    def tree(self) -> TreeNode:
        """Return the scenario as `raw`, every value with its place in its file."""
        return self._root

    def located(self, error: InputError) -> InputError:
        """Return an error about keys of this scenario with the file, line and column of each key."""
        return InputError(raised(mistake, (), self._root).mistake for mistake in error.mistakes)

    def yaml(self) -> str:
        """Return the scenario as one YAML text that extends no other scenario."""
        from io import StringIO

        from ruamel.yaml import YAML

        writer = YAML()
        writer.width = 110
        stream = StringIO()
        writer.dump(self.raw, stream)
        return stream.getvalue()

    def __getattr__(self, key: str) -> Any:
        points = [] if key.startswith("_") or "_trees" not in self.__dict__ else self._points
        if not points or not hasattr(points[0].point, key):
            raise AttributeError(f"a scenario has no attribute '{key}'")
        values = [getattr(point, key) for _, point in points]
        if any(value != values[0] for value in values):
            raise AttributeError(f"'{key}' differs between the points of this scenario; read it from points()")
        return values[0]

    def __repr__(self) -> str:
        swept = "".join(f", {key}={values}" for key, values in self.axes.items())
        return f"Scenario({self.name!r}{swept})"
