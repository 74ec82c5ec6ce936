"""Loads a scenario from a file or a mapping; reports all mistakes at once, each with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from clustersim.arguments import check_texts, check_type
from clustersim.errors import InputError, Mistake, in_order
from clustersim.reading import (
    TreeNode,
    check_extent,
    find_file,
    from_python,
)
from clustersim.scenario.anchors import anchors_of, with_measured
from clustersim.scenario.duplicates import Axes, merge_duplicates
from clustersim.scenario.file_mistakes import check_file
from clustersim.scenario.files import read_scenario
from clustersim.scenario.overrides import apply_overrides
from clustersim.scenario.parts import MeasuredRun
from clustersim.scenario.point_tree import PointTrees
from clustersim.scenario.scenario import Scenario, SweepPoint
from clustersim.scenario.sweep_keys import without_nulls
from clustersim.scenario.sweep_space import space_of
from clustersim.scenario.validate import checked as checked_tree
from clustersim.scenario.validate import open_topology, read_keys, validate
from clustersim.scenario.where import with_where

_QUICK = 1000
"""Points up to which all are checked before the first mistake is told."""


def load_scenario(
    source: str | Path | Mapping[str, Any] | Scenario,
    overrides: Sequence[str] = (),
    measured: Sequence[str] = (),
    allow_outside: bool = False,
    strict: bool = True,
    where: Sequence[str] = (),
) -> Scenario:
    """Return a scenario; with valid points only if `strict`.

    Parameters
    ----------
    source
        A file, the short name of a shipped scenario, or a mapping of the same keys. A path inside a file is relative
        to that file.
    overrides
        Texts such as `num_gpus=8` or `strategy.kind=server`, set in order.
    measured
        Further measured runs as texts, such as `8=105.2/s` (GPUs = samples per second).
    allow_outside
        Whether the file may extend files outside its folder, the working directory and the repositories around them.
    strict
        Whether every point must be valid. If not, points that are wrong only together with the values of several keys,
        or that do not fit, raise the error in `PointTree.point()`.
    where
        Conditions such as `num_gpus * batch.per_gpu <= 4096`; only points for which all hold are kept.

    Raises
    ------
    InputError
        If the scenario is wrong; its `mistakes` has all mistakes, with file, line and key.
    """
    check_type(
        "a scenario", source, (str, PurePath, Mapping, Scenario), "a name, a file, a mapping of keys or a Scenario"
    )
    check_texts("overrides", overrides, "a list of texts such as 'num_gpus=8'")
    check_texts("where", where, "a list of texts such as 'num_gpus <= 64'")
    check_texts("measured", measured, "a list of texts such as '8=105.2/s'")
    if isinstance(source, Scenario) and not overrides and not measured and not where:
        return source
    root, mistakes = _read(source, allow_outside)
    root, wrong = apply_overrides(root, overrides, open_topology)
    root, unparsed = with_measured(root, measured)
    root = without_nulls(with_where(root, where))
    check_extent(root)
    found = _points(root, strict)
    unread = {(each.file, each.line, each.column) for each in mistakes if each.line is not None}
    kept = [each for each in found.mistakes if (each.file, each.line, each.column) not in unread]
    mistakes = in_order([*mistakes, *wrong, *unparsed, *kept])
    if mistakes or found.trees is None:
        raise InputError(mistakes)
    anchors = anchors_of(root, found.measured, validate, open_topology)
    return Scenario(_name(source), root, found.trees, anchors, found.points)


def gives(key: str, source: str | Path | Mapping[str, Any] | Scenario, overrides: Sequence[str] = ()) -> bool:
    """Say whether a scenario has a value for a dotted key, be it valid or not."""
    root, _ = _read(source)
    root, _ = apply_overrides(root, overrides, open_topology)
    node = root.at(tuple(key.split(".")))
    return node is not None and bool(node.value)


def _name(source: str | Path | Mapping[str, Any] | Scenario) -> str:
    """Return the name of a scenario that does not give one."""
    if isinstance(source, Scenario):
        return source.name
    return "scenario" if isinstance(source, Mapping) else Path(source).stem


def _read(
    source: str | Path | Mapping[str, Any] | Scenario, allow_outside: bool = False
) -> tuple[TreeNode, list[Mistake]]:
    if isinstance(source, Scenario):
        return source.tree(), []
    if isinstance(source, Mapping):
        return from_python(source), []
    return read_scenario(find_file(str(source), "scenarios", "scenario"), allow_outside)


@dataclass(frozen=True)
class _Points:
    """The points of a scenario, with the mistakes in its file and, if all points were checked, in these."""

    trees: PointTrees | None = None
    points: Sequence[SweepPoint] | None = None
    measured: Sequence[MeasuredRun] = ()
    mistakes: Sequence[Mistake] = ()


def _points(root: TreeNode, strict: bool) -> _Points:
    try:
        trees = PointTrees(*space_of(root, read_keys, open_topology))
    except InputError as error:
        return _Points(mistakes=error.mistakes)
    if not strict or len(trees) > _QUICK:
        checked = check_file(trees)
        if checked.mistakes or not strict:
            return _Points(trees, None, checked.measured, checked.mistakes)
    points: list[SweepPoint] = []
    found: list[tuple[Axes, list[Mistake]]] = []
    for tree in trees:
        point, problems = checked_tree(tree.root)
        found.append((tree.axes, [problem.mistake for problem in problems]))
        if point is not None and not problems:
            points.append(SweepPoint(dict(tree.axes), point))
    measured = points[0].point.measured if points else ()
    return _Points(trees, points, measured, merge_duplicates(found))
