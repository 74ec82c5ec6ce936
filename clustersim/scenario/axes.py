"""Finds the sweep axes of a scenario and yields their product.

Any scalar may be a list. A list is an axis if the model does not accept it as a value: `num_gpus: [1, 32]` is
an axis, `dims: [4, 4]` of a torus is not, and `dims: [[4, 4], [8, 8]]` is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from clustersim.errors import InputError
from clustersim.reading.explain import Problem, got_text
from clustersim.reading.shape import takes_list
from clustersim.reading.tree import Path, TreeNode, dotted
from clustersim.scenario.point import Point
from clustersim.scenario.spaces import AllCombinations, ListAxis, NoAxis, PointSpace
from clustersim.scenario.sweep_keys import MAX_POINTS

_TRIED = 16
_TAGS = ("kind", "template")  # keys that select a model: a list here is always an axis
_NEVER_AXES = ("name", "description", "$schema", "extends", "measured", "cases", "sweep")

Validate = Callable[[TreeNode], tuple[Point | None, list[Problem]]]


def list_axes(root: TreeNode, validate: Validate, num_before: int = 1) -> PointSpace:
    """Return the space of all lists of a tree that are axes; the first axis in the file changes slowest.

    The axes below one key of the scenario do not depend on the values of other keys. Within a key, the axes after
    a number or a name are those after any other one; only a map, a list or a `kind` may be followed by axes of its own.
    `num_before` is the number of settings that the space is multiplied by.
    """
    parts: list[PointSpace] = []
    for key, node in root.children.items():
        if key not in _NEVER_AXES and any(_lists(node, (key,), with_top=True)):
            parts.append(_of_key(root, key, num_before, validate))
            num_before *= parts[-1].size
            _, root = parts[-1].at(0, root)
    return AllCombinations(parts) if parts else NoAxis()


def _of_key(root: TreeNode, key: str, num_before: int, validate: Validate) -> PointSpace:
    """Return the space of the axes below one key of the scenario."""
    problems = validate(root)[1]
    path = next(_axes(root, key, problems, validate), None) if problems else None
    if path is None:
        return NoAxis()
    elements = _elements(root, path, MAX_POINTS // num_before)
    num_points, shared = num_before * len(elements), None
    after: list[PointSpace] = []
    for element in elements:
        if isinstance(element.value, dict | list) or path[-1] in _TAGS:
            after.append(_of_key(root.put(path, element), key, num_points, validate))
            continue
        shared = _of_key(root.put(path, element), key, num_points, validate) if shared is None else shared
        after.append(shared)
    return ListAxis(dotted(path), path, labels([element.plain() for element in elements]), elements, after)


def _axes(root: TreeNode, key: str, problems: list[Problem], validate: Validate) -> Iterator[Path]:
    """Yield the paths of lists below a key that are axes, outer ones first, in file order."""
    for path, node in _lists(root.children[key], (key,), with_top=True):
        if path[-1] in _TAGS and _within(problems, path[:-1]):
            yield path
            continue
        here = _within(problems, path)
        if here and _is_axis(root, path, node.value, here, validate):
            yield path


def _is_axis(root: TreeNode, path: Path, elements: Sequence[TreeNode], here: list[Problem], validate: Validate) -> bool:
    """Return whether a list that is not valid as a value is meant as an axis.

    It is if one of its elements is valid in its place. If none is, the list is wrong either way: it is an axis
    if no list is allowed there, or else if that leaves fewer mistakes.
    """
    alone = []
    for element in elements[:_TRIED]:
        alone.append(_within(validate(root.put(path, element))[1], path))
        if not alone[-1]:
            return True
    if takes_list(Point, root, path):
        return False
    return any(problem.path == path for problem in here) or sum(map(len, alone)) <= len(here)


def _lists(node: TreeNode, path: Path, with_top: bool = False) -> Iterator[tuple[Path, TreeNode]]:
    """Yield the lists in a node, outer ones first; `with_top` the node itself too."""
    if with_top and isinstance(node.value, list):
        yield path, node
    for key, child in node.items():
        if isinstance(child.value, list):
            yield (*path, key), child
        yield from _lists(child, (*path, key))


def _within(problems: list[Problem], path: Path) -> list[Problem]:
    return [problem for problem in problems if problem.path[: len(path)] == path]


def _elements(root: TreeNode, path: Path, at_most: int) -> Sequence[TreeNode]:
    node = root.at(path) or root
    elements: list[TreeNode] = node.value
    if not elements:
        raise InputError(
            node.place.mistake("the list is empty; give at least one value", dotted(path), "an empty list")
        )
    if len(elements) > at_most:
        message = f"with this list of {len(elements)} values the scenario has more than {MAX_POINTS:,} runs; shorten it"
        raise InputError(node.place.mistake(message, dotted(path), f"{len(elements)} values"))
    seen: set[Any] = set()
    for element in elements:
        value = element.plain()
        known = value if _is_scalar(value) else repr(value)
        if known in seen:
            raise InputError(
                element.place.mistake(f"{got_text(value)} is listed twice; keep one", dotted(path), got_text(value))
            )
        seen.add(known)
    return elements


def labels(values: Sequence[Any]) -> list[Any]:
    """Return a short label for each value of an axis: scalars as they are, maps by the keys that differ.

    >>> labels([{"kind": "all-reduce", "algorithm": "ring"}, {"kind": "server"}])
    ['all-reduce', 'server']
    >>> labels([{"kind": "all-reduce", "algorithm": "ring"}, {"kind": "all-reduce", "algorithm": "tree"}])
    ['all-reduce algorithm=ring', 'all-reduce algorithm=tree']
    """
    kinds = [value.get("kind") if isinstance(value, dict) else value for value in values]
    if (
        any(isinstance(value, dict) for value in values)
        and None not in kinds
        and len({str(kind) for kind in kinds}) == len(kinds)
    ):
        return [kind if _is_scalar(kind) else _text(kind) for kind in kinds]
    maps = [value for value in values if isinstance(value, dict)]
    common = {
        key
        for key in (maps[0] if len(maps) == len(values) else ())
        if all(key in each and each[key] == maps[0][key] for each in maps)
    }
    return [
        _map_label(value, common) if isinstance(value, dict) else value if _is_scalar(value) else _text(value)
        for value in values
    ]


def _map_label(value: dict[str, Any], common: set[str]) -> str:
    kind = value.get("kind")
    differing = [f"{key}={_text(part)}" for key, part in value.items() if key != "kind" and key not in common]
    return " ".join([*([str(kind)] if kind is not None else []), *differing]) or "default"


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(part) for part in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
