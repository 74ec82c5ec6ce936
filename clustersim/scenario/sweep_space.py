"""The points of a scenario: its cases, the lists in them, and the axes of `sweep`, all of which multiply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clustersim.errors import InputError, Mistake
from clustersim.reading import Path, Place, TreeNode, from_python, got_text, raised
from clustersim.scenario.axes import Validate, labels, list_axes
from clustersim.scenario.draws import drawn
from clustersim.scenario.merge import merge
from clustersim.scenario.overrides import CASE, set_node
from clustersim.scenario.spaces import AllCombinations, Cases, PointSpace, Put, Rows
from clustersim.scenario.sweep_keys import MAX_POINTS, SweepDraws, SweepKeys, read_points_keys, without_points_keys
from clustersim.scenario.where import selected

Opened = Callable[[TreeNode], TreeNode]
"""Returns a tree with the cluster itself in place of its name."""


def space_of(root: TreeNode, validate: Validate, opened: Opened) -> tuple[PointSpace, TreeNode]:
    """Return the space of all points of a scenario, and the tree that it starts from.

    Raise InputError for mistakes in the keys that say which points there are, and for too many points.
    """
    space, base = _unselected(root, validate, opened)
    sweep = root.child("sweep")
    where = None if sweep is None else sweep.child("where")
    return selected(space, base, where, _once(opened)), base


def _once(opened: Opened) -> Opened:
    """Return what opens each named cluster only once."""
    known: dict[tuple[str, str | None], TreeNode] = {}

    def open_it(root: TreeNode) -> TreeNode:
        node = root.child("topology")
        if node is None or not isinstance(node.value, str):
            return root
        name = node.value, node.place.file
        if name not in known:
            known[name] = opened(root).children["topology"]
        return root.put(("topology",), known[name])

    return open_it


def _unselected(root: TreeNode, validate: Validate, opened: Opened) -> tuple[PointSpace, TreeNode]:
    """Return the space of all points before `where` leaves some out."""
    keys = read_points_keys(root)
    base = without_points_keys(root)
    parts = _parts(root, keys.sweep, _once(opened)) if keys.sweep is not None else []
    if keys.cases is None:
        return _of_tree(base, parts, validate, 1, root), base
    trees = [merge(base, case) for case in root.children["cases"].children.values()]
    spaces: list[PointSpace] = []
    for tree in trees:
        spaces.append(_of_tree(tree, parts, validate, len(trees), root))
    return Cases(CASE, list(keys.cases), trees, spaces), base


def _of_tree(tree: TreeNode, parts: Sequence[Rows], validate: Validate, num_before: int, root: TreeNode) -> PointSpace:
    """Return the space of the lists in a tree and of these parts; `root` has the places of mistakes."""
    started = tree
    for part in parts:
        num_before *= part.size
        _check_size(part, num_before, root)
        try:
            _, started = part.at(0, started)
        except InputError:  # the map that it belongs to is itself a list, of which a point has one element
            continue
    lists = list_axes(started, validate, num_before)
    return AllCombinations([lists, *parts]) if parts else lists


def _check_size(part: Rows, num_points: int, root: TreeNode) -> None:
    if num_points > MAX_POINTS:
        message = f"with these {part.size} values the scenario has more than {MAX_POINTS:,} runs; take fewer"
        allowed = f"at most {MAX_POINTS:,} points"
        raise InputError(
            raised(Mistake(message, f"sweep.{part.name}", got=f"{part.size} values", allowed=allowed), (), root).mistake
        )


def _parts(root: TreeNode, keys: SweepKeys, opened: Opened) -> list[Rows]:
    """Return the axes of `sweep`: those of the grid, then zips, then draws."""
    node = root.children["sweep"]

    def put(tree: TreeNode, path: Path, value: TreeNode) -> TreeNode:
        return set_node(opened(tree) if path[0] == "topology" and len(path) > 1 else tree, path, value)

    grid = node.child("grid")
    parts = [_together({key: each}, "grid", put) for key, each in (grid.children if grid is not None else {}).items()]
    zips = node.child("zip")
    maps = [] if zips is None else zips.value if isinstance(zips.value, list) else [zips]
    parts += [_together(each.children, "zip", put) for each in maps]
    for name, draws in (("random", keys.random), ("latin-hypercube", keys.latin_hypercube)):
        if draws is not None:
            parts.append(_drawn(node.children[name], name, draws, put))
    return parts


def _together(lists: dict[str, TreeNode], name: str, put: Put) -> Rows:
    """Return lists of equal length whose values go together."""
    columns = [
        list(zip(labels([each.plain() for each in node.value]), node.value, strict=True)) for node in lists.values()
    ]
    rows = list(zip(*columns, strict=True))
    seen: set[str] = set()
    for row in rows:
        text = repr([value.plain() for _, value in row])
        if text in seen:
            shown = ", ".join(f"{key} {got_text(value.plain())}" for key, (_, value) in zip(lists, row, strict=True))
            key = f"sweep.{name}" if len(lists) > 1 else f"sweep.{name}.{next(iter(lists))}"
            raise InputError(row[0][1].place.mistake(f"{shown} is listed twice; keep one", key, shown))
        seen.add(text)
    return Rows([tuple(key.split(".")) for key in lists], len(rows), rows.__getitem__, put, name)


def _drawn(node: TreeNode, name: str, draws: SweepDraws, put: Put) -> Rows:
    """Return drawn points, equal ones once; each value has the place of its key."""
    places = [key.place for key in node.children["keys"].children.values()]
    try:
        columns = drawn(draws, name)
    except InputError as error:
        raise InputError(
            raised(each, (), TreeNode({"sweep": TreeNode({name: node}, node.place)}, node.place)).mistake
            for each in error.mistakes
        ) from None

    first_of_equal: dict[str, int] = {}
    for number in range(draws.points):
        first_of_equal.setdefault(repr([column(number) for column in columns]), number)
    numbers = list(first_of_equal.values())

    def row(place: int) -> list[tuple[Any, TreeNode]]:
        values = [column(numbers[place]) for column in columns]
        return [
            (labels([value])[0], _placed(from_python(value), place))
            for value, place in zip(values, places, strict=True)
        ]

    return Rows([tuple(key.split(".")) for key in draws.keys], len(numbers), row, put, name)


def _placed(node: TreeNode, place: Place) -> TreeNode:
    """Return the node of a drawn value, and of all values in it, at the place of its key."""
    if isinstance(node.value, dict):
        return TreeNode({key: _placed(child, place) for key, child in node.value.items()}, place)
    if isinstance(node.value, list):
        return TreeNode([_placed(child, place) for child in node.value], place)
    return TreeNode(node.value, place)
