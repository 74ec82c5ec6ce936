"""Merges one scenario into another, for `extends` and jobs."""

from __future__ import annotations

from collections.abc import Mapping

from clustersim.reading.tree import TreeNode

ALTERNATIVES = (
    frozenset({"per_gpu", "global"}),
    frozenset({"hours", "samples_per_s"}),
    frozenset({"single_gpu", "profile"}),
)
"""Keys of which a map holds at most one: giving one replaces the other."""


def merge(base: TreeNode, over: TreeNode) -> TreeNode:
    """Merge the tree `over` into `base`: maps merge key by key, any other value is replaced.

    A map with another `kind` replaces the whole map, so that no option of the old kind remains. So does `software`
    with another `name`. Of two alternatives (`per_gpu` and `global`) the one in `over` wins.
    """
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)) or other_kind(base, over):
        return over
    kept = {key: child for key, child in base.value.items() if key in over.value or not _displaced(key, over.value)}
    merged = {key: _merged(key, kept[key], child) if key in kept else child for key, child in over.value.items()}
    return over.with_value({key: merged.pop(key, child) for key, child in kept.items()} | merged)


def _merged(key: str, base: TreeNode, over: TreeNode) -> TreeNode:
    if key != "software":
        return merge(base, over)
    old, new = named_map(base), named_map(over)
    names = [node.children["name"].plain() if "name" in node.children else None for node in (old, new)]
    return new if names[1] not in (None, names[0]) else merge(old, new)


def named_map(node: TreeNode) -> TreeNode:
    """Return the map that the name of a program stands for; any other value as it is."""
    return node.with_value({"name": node.with_value(node.value)}) if isinstance(node.value, str) else node


def other_kind(base: TreeNode, over: TreeNode) -> bool:
    """Return whether both maps have a `kind` and the two differ."""
    old, new = base.children.get("kind"), over.children.get("kind")
    return old is not None and new is not None and old.plain() != new.plain()


def _displaced(key: str, over: Mapping[str, TreeNode]) -> bool:
    return any(key in group and any(other in over for other in group) for group in ALTERNATIVES)
