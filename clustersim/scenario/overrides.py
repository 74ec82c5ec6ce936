"""`--set a.b=value`: changes to a scenario from the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clustersim.errors import InputError, Mistake
from clustersim.reading.tree import Path, Place, TreeNode, dotted
from clustersim.reading.yaml_reader import read_yaml
from clustersim.scenario.merge import ALTERNATIVES, named_map

_PLACE = Place("--set")


def apply_overrides(
    root: TreeNode, overrides: Sequence[str], opened: Callable[[TreeNode], TreeNode] = lambda root: root
) -> tuple[TreeNode, list[Mistake]]:
    """Return the tree with every `key=value` set, in order, and the mistakes in them.

    Missing maps on the path are created. A new `kind`, or one of two alternatives, drops the options of the
    old one that the file gave; options from the command line stay. `opened` returns a tree with the cluster
    itself in place of its name; a key of the topology is set in that tree.
    """
    mistakes: list[Mistake] = []
    for text in overrides:
        try:
            path, node = _parsed(text)
            root = opened(root) if path[0] == "topology" and len(path) > 1 else root
            root = _set(root, path, node, ())
        except InputError as error:
            mistakes += error.mistakes
    return root, mistakes


def set_node(root: TreeNode, path: Path, value: TreeNode) -> TreeNode:
    """Return the tree with a value at a path, as `apply_overrides` sets it."""
    return _set(root, path, value, ())


def _parsed(text: str) -> tuple[Path, TreeNode]:
    key, equals, value = text.partition("=")
    keys = key.strip().split(".")
    if not equals or not all(keys):
        shown = text[:60]
        raise InputError(
            _PLACE.mistake(
                f"expected KEY=VALUE, such as 'strategy.kind=server' (got '{shown}')", None, shown, "KEY=VALUE"
            )
        )
    try:
        node, mistakes = read_yaml(value, _PLACE.file, positions=False)
    except InputError as error:
        mistakes = list(error.mistakes)
    if mistakes:
        raise InputError([_PLACE.mistake(mistake.message, key.strip(), value[:60]) for mistake in mistakes])
    if node.value is None and value.strip() not in ("null", "~"):
        raise InputError(
            _PLACE.mistake(
                "the value is missing; write KEY=VALUE, or KEY=null to leave the key out", key.strip(), value[:60]
            )
        )
    return tuple(keys), node


def _set(node: TreeNode, path: Path, value: TreeNode, above: Path) -> TreeNode:
    if not path:
        return value
    key = path[0]
    if isinstance(node.value, list):
        return _set_element(node, path, value, above)
    if not isinstance(node.value, dict):
        here = dotted(above)
        raise InputError(
            _PLACE.mistake(f"'{here}' is {node.value!r} and has no keys; set '{here}' itself", dotted((*above, *path)))
        )
    children = dict(node.value)
    if len(path) == 1:
        children = {name: child for name, child in children.items() if not _dropped(name, child, str(key), value, node)}
    old = children.get(str(key))
    if old is not None and key == "software" and len(path) > 1:
        old = named_map(old)
    inside = old if old is not None and old.value is not None else TreeNode({}, _PLACE)
    children[str(key)] = _set(inside, path[1:], value, (*above, key))
    return node.with_value(children)


def _set_element(node: TreeNode, path: Path, value: TreeNode, above: Path) -> TreeNode:
    key, elements = str(path[0]), list(node.value)
    if not key.isdecimal() or len(key) > 9 or int(key) >= len(elements):
        here = dotted(above)
        allowed = f"0 to {len(elements) - 1}" if elements else "no element; the list is empty"
        message = f"'{here}' is a list of {len(elements)}; name an element by its number, {allowed}"
        raise InputError(_PLACE.mistake(f"{message} (got '{key}')", dotted((*above, *path)), key, allowed))
    elements[int(key)] = _set(elements[int(key)], path[1:], value, (*above, int(key)))
    return node.with_value(elements)


def _dropped(name: str, child: TreeNode, key: str, value: TreeNode, parent: TreeNode) -> bool:
    if name == key or child.place.file == _PLACE.file:
        return False
    if key == "kind" and "kind" in parent.children:
        return bool(parent.children["kind"].plain() != value.plain())
    return any(key in group and name in group for group in ALTERNATIVES)
