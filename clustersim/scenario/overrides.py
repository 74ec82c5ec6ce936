"""`--set a.b=value`: changes to a scenario from the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.reading.tree import Path, Place, TreeNode, dotted
from clustersim.reading.yaml_reader import read_yaml
from clustersim.scenario.merge import ALTERNATIVES, merge, named_map

CASE = "case"
"""The axis of `cases`, and the key that chooses some of them."""

CASES = "cases"
_PLACE = Place("--set")


def apply_overrides(
    root: TreeNode, overrides: Sequence[str], opened: Callable[[TreeNode], TreeNode] = lambda root: root
) -> tuple[TreeNode, list[Mistake]]:
    """Return the tree with every `key=value` set, in order, and the mistakes in them.

    A key that cases or axes of `sweep` give is set there too: cases get the value, and the axis is dropped. `case` is
    the name of one of the `cases`, or a list of names.

    Missing maps on the path are created. A new `kind`, or one of two alternatives, drops the options of the
    old one that the file gave; options from the command line stay. `opened` returns a tree with the cluster
    itself in place of its name; a key of the topology is set in that tree.
    """
    mistakes: list[Mistake] = []
    for text in overrides:
        try:
            path, node = _parsed(text)
            root = chosen_cases(root, node) if path == (CASE,) else _set_everywhere(root, path, node, opened)
        except InputError as error:
            mistakes += error.mistakes
    return root, mistakes


def chosen_cases(root: TreeNode, names: TreeNode) -> TreeNode:
    """Return the tree with these of its cases only; with one of them, as a scenario without cases."""
    cases = root.child(CASES)
    known = dict(cases.children) if cases is not None else {}
    wanted = [each.plain() for each in names.value] if isinstance(names.value, list) else [names.plain()]
    for name in wanted:
        if str(name) not in known:
            error = unknown_name("case", name, known) if known else InputError("the scenario has no cases")
            raise InputError(names.place.mistake(error.mistakes[0].message, CASE, str(name), ", ".join(known)))
    kept = {key: child for key, child in root.children.items() if key != CASES}
    if cases is None or not isinstance(names.value, list):
        return merge(root.with_value(kept), known[str(wanted[0])])
    return root.put((CASES,), cases.with_value({str(name): known[str(name)] for name in wanted}))


def without_axis(root: TreeNode, path: Path) -> TreeNode:
    """Return the tree of a scenario whose `sweep` has no axis for a key, nor for keys below it."""
    sweep, key = root.child("sweep"), dotted(path)
    if sweep is None or not isinstance(sweep.value, dict):
        return root
    parts: dict[str, TreeNode] = {}
    for name, part in sweep.children.items():
        if name in ("grid", "zip"):
            is_list = isinstance(part.value, list)
            left = [_without_key(each, key, name) for each in (part.value if is_list else [part])]
            left = [each for each in left if each.value]
            kept = None if not left else part.with_value(left) if is_list else left[0]
        elif (keys := part.child("keys")) is not None:
            kept_keys = _without_key(keys, key, name)
            kept = part.put(("keys",), kept_keys) if kept_keys.value else None
        else:
            kept = part
        parts |= {name: kept} if kept is not None else {}
    return root.put(("sweep",), sweep.with_value(parts))


def _without_key(node: TreeNode, key: str, name: str) -> TreeNode:
    """Return a map of axes without a key and those below it; refuse one that is set inside the values of an axis."""
    for axis in node.children:
        if key.startswith(f"{axis}."):
            message = f"'{axis}' is an axis of sweep.{name}; set '{axis}' itself"
            raise InputError(_PLACE.mistake(message, key, key))
    return node.with_value(
        {axis: child for axis, child in node.children.items() if axis != key and not axis.startswith(f"{key}.")}
    )


def _set_everywhere(root: TreeNode, path: Path, node: TreeNode, opened: Callable[[TreeNode], TreeNode]) -> TreeNode:
    """Return the tree of a scenario with a value at a path, in each of its cases that has the key too."""

    def put(tree: TreeNode) -> TreeNode:
        return _set(opened(tree) if path[0] == "topology" and len(path) > 1 else tree, path, node, ())

    cases = root.child(CASES)
    if path[0] in (CASES, "sweep"):
        return put(root)
    if cases is not None and isinstance(cases.value, dict):
        changed = {name: put(case) if path[0] in case.children else case for name, case in cases.children.items()}
        root = root.put((CASES,), cases.with_value(changed))
    return without_axis(put(root), path)


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
