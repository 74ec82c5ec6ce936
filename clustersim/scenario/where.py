"""Conditions on the points of a sweep, such as `num_gpus * batch.per_gpu <= 4096`.

A condition is a Python expression of dotted keys, numbers, quantities and texts. It is read as a syntax tree and never
run as Python.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clustersim.errors import InputError, Mistake, hint_after, nearest
from clustersim.reading import Path, Place, TreeNode, field_of, models_at
from clustersim.reading.shape import places_of
from clustersim.reading.tree import dotted
from clustersim.scenario.overrides import CASE
from clustersim.scenario.point import Point
from clustersim.scenario.quantities import Amount, Quantity, quantity_of, same_unit, with_units, without_unit
from clustersim.scenario.software_keys import STAYS
from clustersim.scenario.spaces import Axes, PointSpace, Selected
from clustersim.spec import is_of_software

_OPTION = Place("--where")
_LONGEST = 1000
_ALLOWED = "keys with dots, numbers, quantities, 'texts', + - * / // %, comparisons, in, and, or, not"
_TOKEN = re.compile(
    r"""(?P<text>'[^']*'|"[^"]*")
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<unit>\s*[A-Za-zµμ]+(?:/s)?\b)?
    |(?P<name>[A-Za-z_]\w*(?:\.\w+)*)""",
    re.VERBOSE,
)
_WORDS = {"and", "or", "not", "in", "is"}
_VALUES = {"true": "True", "false": "False", "null": "None", "True": "True", "False": "False", "None": "None"}
_SUMS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_POWERS: dict[type[ast.AST], int] = {ast.Mult: 1, ast.Div: -1, ast.FloorDiv: -1}
"""Whether the units of the right side multiply or divide those of the left; others need equal units."""
_ORDERS: dict[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ROUNDING = 1e-12
"""Relative difference up to which numbers are equal: 1000 ns and 1 us differ by the rounding of a float."""

Opened = Callable[[TreeNode], TreeNode]
"""Returns a tree with the cluster itself in place of its name."""


@dataclass(frozen=True)
class _Missing:
    """The value of a key that a point does not have."""

    key: str


class _WrongError(Exception):
    """A condition that cannot be evaluated."""


@dataclass(frozen=True)
class _Values:
    """The values of one point."""

    axes: Axes
    root: TreeNode
    opened: Opened

    def of(self, path: Path) -> Any:
        """Return the value at a key; a map by its `kind`, its `name` or its only value."""
        root = self.root
        topology = root.child("topology") if path[0] == "topology" and len(path) > 1 else None
        if topology is not None and isinstance(topology.value, str):
            root = self.opened(root)
        node = root.at(path)
        if node is not None and node.value is not None:
            return _plain(node, dotted(path))
        if dotted(path) in self.axes:
            return _number_of(self.axes[dotted(path)])
        return _default(root, path)


_Compiled = Callable[[_Values], Any]


@dataclass(frozen=True)
class Condition:
    """A condition as written, with its place, and the keys in it."""

    text: str
    place: Place
    keys: tuple[Path, ...]
    _compiled: _Compiled

    def holds(self, values: _Values) -> bool:
        """Return whether it holds for a point, or raise InputError if its values cannot be compared."""
        try:
            found = self._compiled(values)
            if not isinstance(found, bool):
                raise _WrongError(f"it is {_shown(found)}, which is neither true nor false")
        except _WrongError as error:
            of_point = ", ".join(f"{key} {value}" for key, value in values.axes.items())
            at = f" (at {of_point})" if of_point else ""
            raise InputError(self.mistake(f"'{self.text}': {error}{at}", self.text)) from None
        return found

    def mistake(self, message: str, got: str) -> Mistake:
        key = None if self.place == _OPTION else "sweep.where"
        return self.place.mistake(message, key, got, _ALLOWED)


def with_where(root: TreeNode, texts: Sequence[str]) -> TreeNode:
    """Return the tree with the conditions of `--where` after those of the file."""
    if not texts:
        return root
    sweep = root.child("sweep")
    children = dict(sweep.children) if sweep is not None else {}
    nodes = [*_nodes(children.get("where")), *(TreeNode(text, _OPTION) for text in texts)]
    children["where"] = TreeNode(nodes, _OPTION)
    whole = TreeNode(children, _OPTION) if sweep is None or sweep.value is None else sweep.with_value(children)
    return root.with_value({**root.children, "sweep": whole})


def selected(space: PointSpace, root: TreeNode, where: TreeNode | None, opened: Opened) -> PointSpace:
    """Return the settings of a space for which all conditions hold.

    Raise InputError for a wrong condition, an unknown key, and if no point is left.
    """
    conditions = [parse_condition(str(node.value), node.place) for node in _nodes(where)]
    if not conditions:
        return space
    _check_keys(conditions, space, root)
    numbers, first_of_values = array("L"), array("L")
    seen: set[tuple[str, str]] = set()
    for number in range(space.size):
        axes, tree = space.at(number, root)
        values = _Values(axes, tree, opened)
        if not all(condition.holds(values) for condition in conditions):
            continue
        new = {(key, repr(value)) for key, value in axes.items()} - seen
        if new or not numbers:
            first_of_values.append(len(numbers))
            seen |= new
        numbers.append(number)
    if not numbers:
        first = conditions[0]
        shown = " and ".join(f"'{each.text}'" for each in conditions)
        raise InputError(first.mistake(f"no point is left: {shown} holds for none of {space.size}", first.text))
    return space if len(numbers) == space.size else Selected(space, numbers, first_of_values)


def parse_condition(text: str, place: Place = _OPTION) -> Condition:
    """Return a condition, or raise InputError if it is none."""
    keys: list[Path] = []

    def in_python(found: re.Match[str]) -> str:
        if found["number"] is not None:
            is_quantity = found["unit"] and quantity_of(found[0]) is not None
            return repr(found[0]) if is_quantity else f"{found['number']} {found['unit'] or ''}"
        if found["text"] is not None:
            return repr(found["text"][1:-1])
        name = found["name"]
        if name in _WORDS:
            return name
        if name in _VALUES:
            return _VALUES[name]
        keys.append(tuple(int(part) if part.isdecimal() else part for part in name.split(".")))
        return f" _{len(keys) - 1}"

    try:
        if len(text) > _LONGEST:
            raise _WrongError(f"it is longer than {_LONGEST} characters")
        tree = ast.parse(_TOKEN.sub(in_python, text).strip(), mode="eval")
        compiled = _Compiler(tuple(keys)).of(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        message = (
            f"expected a condition such as 'num_gpus * batch.per_gpu <= 4096', with texts in quotes (got '{text[:60]}')"
        )
        raise InputError(_mistake(place, message, text)) from None
    except _WrongError as error:
        raise InputError(_mistake(place, f"'{text[:60]}': {error}", text)) from None
    return Condition(text, place, tuple(keys), compiled)


def _mistake(place: Place, message: str, text: str) -> Mistake:
    return place.mistake(message, None if place == _OPTION else "sweep.where", text[:60], _ALLOWED)


@dataclass(frozen=True)
class _Compiler:
    """Turns the syntax tree of a condition into functions of a point's values."""

    keys: tuple[Path, ...]

    def of(self, node: ast.expr) -> _Compiled:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | None):
            value = _number_of(node.value)
            return lambda values: value
        if isinstance(node, ast.Name):
            path = self.keys[int(node.id[1:])]
            return lambda values: values.of(path)
        if isinstance(node, ast.List | ast.Tuple):
            parts = [self.of(each) for each in node.elts]
            return lambda values: [part(values) for part in parts]
        if isinstance(node, ast.BoolOp):
            parts, is_and = [self.of(each) for each in node.values], isinstance(node.op, ast.And)
            both = all if is_and else any
            return lambda values: both(_truth(part(values)) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.of(node.operand)
            return lambda values: not _truth(inner(values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            inner, sign = self.of(node.operand), -1 if isinstance(node.op, ast.USub) else 1
            return lambda values: _sum(ast.Mult, sign, inner(values))
        if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
            left, right, kind = self.of(node.left), self.of(node.right), type(node.op)
            return lambda values: _sum(kind, left(values), right(values))
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        written = re.sub(r"\b_(\d+)\b", lambda found: dotted(self.keys[int(found[1])]), ast.unparse(node))
        raise _WrongError(f"a condition cannot have {written[:60]}; it has {_ALLOWED}")

    def _comparison(self, node: ast.Compare) -> _Compiled:
        parts = [self.of(each) for each in (node.left, *node.comparators)]

        def holds(values: _Values) -> bool:
            left = parts[0](values)
            for op, part in zip(node.ops, parts[1:], strict=True):
                right = part(values)
                if not _compared(op, left, right):
                    return False
                left = right
            return True

        return holds


def _compared(op: ast.cmpop, left: Any, right: Any) -> bool:
    if isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        is_equal = isinstance(op, ast.Eq | ast.Is)
        if left is None or right is None:
            return (_nothing(left) and _nothing(right)) == is_equal
        return _equal(_given(left), _given(right)) == is_equal
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, list):
            raise _WrongError(f"`in` needs a list such as [8, 16] (got {_shown(right)})")
        left = _given(left)
        return any(_equal(left, each) for each in right) == isinstance(op, ast.In)
    left, right = _given(left), _given(right)
    if _is_amount(left) and _is_amount(right):
        if _equal(left, right):
            return isinstance(op, ast.LtE | ast.GtE)
        return bool(_ORDERS[type(op)](without_unit(left), without_unit(right)))
    if isinstance(left, str) and isinstance(right, str):
        return bool(_ORDERS[type(op)](left, right))
    raise _WrongError(f"{_shown(left)} and {_shown(right)} have no order")


def _equal(left: Any, right: Any) -> bool:
    if _is_amount(left) and _is_amount(right):
        _check_units(left, right)
        left, right = without_unit(left), without_unit(right)
        is_float = isinstance(left, float) or isinstance(right, float)
        return left == right or (is_float and math.isclose(left, right, rel_tol=_ROUNDING))
    for one, other in ((left, right), (right, left)):
        if _is_amount(one) and isinstance(other, str) and _is_written_number(other):
            raise _WrongError(f"{one} is a number and '{other}' a text; write numbers without quotes")
    return bool(left == right)


def _check_units(left: Amount, right: Amount) -> None:
    if (why := same_unit(left, right)) is not None:
        raise _WrongError(why)


def _is_written_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _sum(kind: type[ast.AST], left: Any, right: Any) -> Any:
    left, right = _given(left), _given(right)
    if not (_is_amount(left) and _is_amount(right)):
        wrong = left if not _is_amount(left) else right
        raise _WrongError(f"only numbers are added, multiplied and so on (got {_shown(wrong)})")
    sign = _POWERS.get(kind)
    if sign is None:
        _check_units(left, right)
    try:
        found = _SUMS[kind](without_unit(left), without_unit(right))
    except (ZeroDivisionError, OverflowError):
        raise _WrongError("it divides by zero or is too large") from None
    if sign is not None:
        return with_units(found, left, right, sign)
    with_unit = left if isinstance(left, Quantity) else right
    return Quantity(found, with_unit.powers) if isinstance(with_unit, Quantity) else found


def _truth(value: Any) -> bool:
    value = _given(value)
    if not isinstance(value, bool):
        raise _WrongError(f"expected true or false (got {_shown(value)})")
    return value


def _given(value: Any) -> Any:
    """Return a value that a point has; refuse one that it does not have."""
    if isinstance(value, _Missing) or value is None:
        key = value.key if isinstance(value, _Missing) else "null"
        raise _WrongError(f"this point has no {key}; write '{key} != null and ...' to leave such points out")
    return value


def _nothing(value: Any) -> bool:
    return value is None or isinstance(value, _Missing)


def _is_amount(value: Any) -> bool:
    return isinstance(value, Amount) and not isinstance(value, bool)


def _number_of(value: Any) -> Any:
    """Return the quantity of a text that is one; any other value as it is."""
    quantity = quantity_of(value) if isinstance(value, str) else None
    return value if quantity is None else quantity


def _plain(node: TreeNode, key: str) -> Any:
    if isinstance(node.value, dict):
        children = node.children
        for name in ("kind", "name", *([next(iter(children))] if len(children) == 1 else [])):
            if name in children:
                return _plain(children[name], f"{key}.{name}")
        raise _WrongError(f"{key} is a map; name one of its keys: {', '.join(children) or 'it has none'}")
    if isinstance(node.value, list):
        return [_plain(each, key) for each in node.value]
    return _number_of(node.value)


def _default(root: TreeNode, path: Path) -> Any:
    """Return the default of a key that a point does not give; `_Missing` where it has none or software decides."""
    missing = _Missing(dotted(path))
    if path in STAYS.values():
        return missing
    fields = [field_of(model, str(path[-1])) for model in models_at(Point, root, path[:-1])]
    found = [field for field in fields if field is not None]
    if not found or is_of_software(found[0]) or not isinstance(found[0].default, str | int | float):
        return missing
    return _number_of(found[0].default)


def _check_keys(conditions: Sequence[Condition], space: PointSpace, root: TreeNode) -> None:
    """Refuse keys that no scenario has, and that are no axis of this one."""
    for condition in conditions:
        for path in condition.keys:
            if not _is_key(path, space, root):
                name = dotted(path)
                places = places_of(Point, str(path[-1]))
                known = [*places, *Point.model_fields]
                near = places[0] if places else nearest(name, known)
                message = f"'{condition.text}': no key of a scenario is called '{name}'{hint_after(None, near)}"
                if path == (CASE,):
                    message = f"'{condition.text}': there is no axis '{CASE}' here; --set '{CASE}=[NAME]' keeps it"
                raise InputError(condition.mistake(message, name))


def _is_key(path: Path, space: PointSpace, root: TreeNode) -> bool:
    above = path[:-1]
    if any(field_of(model, str(path[-1])) is not None for model in models_at(Point, TreeNode({}, Place()), above)):
        return True
    for number in space.covering():
        axes, tree = space.at(number, root)
        if dotted(path) in axes or tree.at(path) is not None:
            return True
    return False


def _shown(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else "null" if value is None else str(value)


def _nodes(where: TreeNode | None) -> list[TreeNode]:
    """Return the conditions of `where`, one of which may be given without a list."""
    if where is None or where.value is None:
        return []
    return list(where.value) if isinstance(where.value, list) else [where]
