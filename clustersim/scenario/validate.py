"""Checks one setting of the axes: its keys, and what they are together; reports all mistakes at once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clustersim.errors import InputError, Mistake
from clustersim.model import load_workload
from clustersim.reading import Path as KeyPath
from clustersim.reading import (
    Problem,
    TreeNode,
    explain,
    find_file,
    from_python,
    named_by,
    raised,
    with_files,
)
from clustersim.scenario.checks import check_point, unreadable_names
from clustersim.scenario.hosts_needed import domain_mistakes, with_hosts
from clustersim.scenario.jobs import expand_jobs, without_inherited
from clustersim.scenario.point import KEYS_ALONE, Point
from clustersim.scenario.software import Settled, of_no_use, settle, with_settled, written
from clustersim.scenario.software_keys import as_written
from clustersim.topology import read_topology

_ROUNDS = 4  # of validation, each with the wrong keys of the last one replaced
_CROSSING = {"num_gpus", "batch"}  # keys that the checks of other keys need
_NOT_HELD = {
    *("name", "description", "dataset_size", "epochs", "train_tokens", "num_iterations", "baseline"),
    *("published", "measured", "prices"),
    *("seed", "replicates", "placement", "background_traffic", "stragglers", "failures", "input", "learning"),
}
"""Keys that the memory check does not need. With a mistake in another one, known or not, the memory is unknown."""
_STAND_INS: dict[str, Any] = {
    "model": "squeezenet-1.0",
    "topology": {"kind": "star", "num_hosts": 1, "gpu": "h100", "link": "1 GB/s", "hop": "1 us"},
    "strategy": {"kind": "all-reduce"},
}


def checked(root: TreeNode) -> tuple[Point | None, list[Problem]]:
    """Return the point of a tree without axes and all its mistakes, those of its cluster and devices too.

    The point is None if its keys are wrong.
    """
    point, problems = validate(root)
    return point, problems if point is None else point_problems(point, root)


def point_problems(point: Point, root: TreeNode) -> list[Problem]:
    """Return the mistakes of a valid point that only its model, cluster and devices show."""
    return without_inherited([raised_in(mistake, root) for mistake in check_point(point)], root)


def validate(root: TreeNode) -> tuple[Point | None, list[Problem]]:
    """Return the point of a tree without axes, or all mistakes in it and in its jobs."""
    point, problems = _validated(root)
    return point, without_inherited(problems, root)


def read_keys(root: TreeNode) -> tuple[Point | None, list[Problem]]:
    """Return the point of a tree with each key checked by itself, or the mistakes of its keys and of what they name.

    What keys are together, and whether the training fits, is not checked: `checked` does.
    """
    point, problems = _keys_read(root)
    return point, without_inherited(problems, root)


def _with_topology(root: TreeNode) -> tuple[TreeNode, list[Problem], set[str]]:
    """Return the tree with its topology and files read, or with a stand-in, its mistakes and the replaced keys."""
    try:
        return with_files(open_topology(root)), [], set()
    except InputError as error:
        problems = [Problem(("topology",), mistake) for mistake in error.mistakes]
        return _stand_in(root, {"topology"}), problems, {"topology"}


def _keys_read(root: TreeNode) -> tuple[Point | None, list[Problem]]:
    root, problems, replaced = _with_topology(root)
    root, shared_keys = expand_jobs(root)
    settled = settle(with_hosts(root))
    problems += [*shared_keys, *settled.problems]
    try:
        _, point = _with_what_it_needs(settled, replaced | {KEYS_ALONE})
    except ValidationError as error:
        told = [each for each in explain(error, settled.root, Point) if not _is_about(each.path, replaced)]
        return None, [*problems, *map(written, told)]
    unread = unreadable_names(point, "topology" not in replaced)
    problems += [raised_in(mistake, root) for mistake in unread]
    return (None if problems else point), problems


def _validated(root: TreeNode) -> tuple[Point | None, list[Problem]]:
    """Return the point of a tree without axes, or all mistakes in it.

    Validated strictly, as JSON: neither `true` nor '8' is a number. A wrong key is replaced by a valid stand-in and
    the rest is validated again, so that one mistake hides no other.
    """
    root, problems, replaced = _with_topology(root)
    root, shared_keys = expand_jobs(root)
    problems += shared_keys
    problems += [raised_in(mistake, root) for mistake in domain_mistakes(root)]
    root = with_hosts(root)
    settled = settle(root)
    problems += [*settled.problems, *settled.unable]
    for _ in range(_ROUNDS):
        try:
            settled, point = _with_what_it_needs(settled, replaced)
        except ValidationError as error:
            told = [each for each in explain(error, settled.root, Point) if not _is_about(each.path, replaced)]
            found = [written(each) for each in told]
            problems += found
            wrong = {str(each.path[0]) for each in found if each.path} - replaced
            if not wrong or wrong & _CROSSING:
                return None, [*problems, *_model_problems(root, replaced | wrong)]
            root, replaced = _stand_in(root, wrong), replaced | wrong
            settled = settle(root)
            continue
        if problems:
            if {str(each.path[0]) for each in problems if each.path} - _NOT_HELD:
                point = point.model_copy(update={"memory_check": False})
            checked = [raised_in(mistake, root) for mistake in check_point(point, "topology" not in replaced)]
            return None, [*problems, *(each for each in checked if not _is_about(each.path, replaced))]
        return point, []
    return None, problems


def _with_what_it_needs(settled: Settled, replaced: set[str]) -> tuple[Settled, Point]:
    """Return a training without the settings of its software that the layout has no use for, and its point.

    Raise the ValidationError of what is wrong with the settings of the scenario itself.
    """
    while True:
        try:
            plain = json.dumps(settled.root.plain())
            point = Point.model_validate_json(plain, strict=True, context=replaced)
        except ValidationError as error:
            unused = settled.supplied & {each.path for each in explain(error, settled.root, Point)}
            if not unused:
                raise
            settled = settled.without(unused)
            continue
        unused = of_no_use(with_settled(point, settled))
        if not unused:
            return settled, point
        settled = settled.without(unused)


def raised_in(mistake: Mistake, root: TreeNode) -> Problem:
    """Return a mistake of a check with the key and the place that the scenario has for it."""
    named = replace(mistake, message=as_written(mistake.message), key=mistake.key and as_written(mistake.key))
    return raised(named, (), root)


def _model_problems(root: TreeNode, replaced: set[str]) -> list[Problem]:
    """Return what is wrong with the model, which can be checked whatever else is wrong."""
    node = root.child("model")
    if node is None or "model" in replaced or not isinstance(node.value, str):
        return []
    try:
        load_workload(node.value)
    except InputError as error:
        return [raised(replace(mistake, key="model"), (), root) for mistake in error.mistakes]
    return []


def _is_about(path: KeyPath, replaced: set[str]) -> bool:
    """Return whether the value at a path was replaced by a stand-in."""
    return bool(path) and str(path[0]) in replaced


def _stand_in(root: TreeNode, keys: set[str]) -> TreeNode:
    """Return the tree with a valid stand-in for each of these keys, or without it where it is optional."""
    children = {key: node for key, node in root.value.items() if key not in keys}
    stand_ins = {key: _STAND_INS[key] for key in _STAND_INS if key in keys}
    return root.with_value({**children, **from_python(stand_ins).value})


def open_topology(root: TreeNode) -> TreeNode:
    """Return the tree with the cluster itself in place of its name or file."""
    node = root.child("topology")
    if node is None or not isinstance(node.value, str):
        return root
    beside = Path(node.place.file).parent if node.place.line is not None and node.place.file else Path()
    with named_by(node, "topology"):
        path = find_file(node.value, "topologies", "topology", beside)
        return root.put(("topology",), read_topology(path))
