"""Loads a scenario from a file or a mapping; reports all mistakes at once, each with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from clustersim.scenario.axes import settings
from clustersim.scenario.duplicates import merge_duplicates
from clustersim.scenario.files import read_scenario
from clustersim.scenario.overrides import apply_overrides
from clustersim.scenario.point_tree import PointTree
from clustersim.scenario.scenario import Scenario, SweepPoint
from clustersim.scenario.validate import open_topology, point_problems, validate


def load_scenario(
    source: str | Path | Mapping[str, Any] | Scenario,
    overrides: Sequence[str] = (),
    measured: Sequence[str] = (),
    allow_outside: bool = False,
    strict: bool = True,
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

    Raises
    ------
    InputError
        If the scenario is wrong; its `mistakes` has all mistakes, with file, line and key.
    """
    check_type(
        "a scenario", source, (str, PurePath, Mapping, Scenario), "a name, a file, a mapping of keys or a Scenario"
    )
    check_texts("overrides", overrides, "a list of texts such as 'num_gpus=8'")
    check_texts("measured", measured, "a list of texts such as '8=105.2/s'")
    if isinstance(source, Scenario) and not overrides and not measured:
        return source
    root, mistakes = _read(source.raw if isinstance(source, Scenario) else source, allow_outside)
    root, wrong = apply_overrides(root, overrides, open_topology)
    root, unparsed = with_measured(root, measured)
    check_extent(root)
    trees, points, found = _points(root)
    found = found if strict or not points else []
    unread = {(each.file, each.line, each.column) for each in mistakes if each.line is not None}
    kept = [each for each in found if (each.file, each.line, each.column) not in unread]
    mistakes = in_order([*mistakes, *wrong, *unparsed, *kept])
    if mistakes:
        raise InputError(mistakes)
    anchors = anchors_of(root, points[0].point.measured, validate, open_topology)
    return Scenario(_name(source), root, trees, anchors, points if len(points) == len(trees) else None)


def gives_measured(source: str | Path | Mapping[str, Any] | Scenario, overrides: Sequence[str] = ()) -> bool:
    """Say whether a scenario has measured runs, be it valid or not."""
    root, _ = _read(source.raw if isinstance(source, Scenario) else source)
    root, _ = apply_overrides(root, overrides, open_topology)
    node = root.child("measured")
    return node is not None and bool(node.value)


def _name(source: str | Path | Mapping[str, Any] | Scenario) -> str:
    """Return the name of a scenario that does not give one."""
    if isinstance(source, Scenario):
        return source.name
    return "scenario" if isinstance(source, Mapping) else Path(source).stem


def _read(source: str | Path | Mapping[str, Any], allow_outside: bool = False) -> tuple[TreeNode, list[Mistake]]:
    if isinstance(source, Mapping):
        return from_python(source), []
    return read_scenario(find_file(str(source), "scenarios", "scenario"), allow_outside)


def _points(root: TreeNode) -> tuple[list[PointTree], list[SweepPoint], list[Mistake]]:
    """Return every setting of the axes, the points of those that are valid, and all mistakes."""
    trees: list[PointTree] = []
    points: list[SweepPoint] = []
    found: list[tuple[dict[str, Any], list[Mistake]]] = []
    wrong_axis: Sequence[Mistake] = ()
    try:
        for number, setting in enumerate(settings(root, validate)):
            problems = setting.problems
            trees.append(PointTree(number, setting.axes, setting.root))
            if setting.point is not None:
                problems = point_problems(setting.point, setting.root)
            if setting.point is not None and not problems:
                points.append(SweepPoint(setting.axes, setting.point))
            found.append((setting.axes, [problem.mistake for problem in problems]))
    except InputError as error:
        wrong_axis = error.mistakes
    return trees, points, [*merge_duplicates(found), *wrong_axis]
