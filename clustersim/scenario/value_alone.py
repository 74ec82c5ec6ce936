"""Checks a number or a quantity by itself, which costs little enough for every value of an axis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from clustersim.reading import TreeNode
from clustersim.reading.shape import field_of, models_at
from clustersim.reading.tree import Path
from clustersim.scenario.point import KEYS_ALONE, Point
from clustersim.units import read_quantity


class ValuesAlone:
    """Says of values whether their key takes them, whatever else the scenario has."""

    def __init__(self) -> None:
        self._types: dict[tuple[type, str], TypeAdapter[Any] | None] = {}

    def is_right(self, root: TreeNode, path: Path) -> bool:
        """Return whether the key at a path takes its number or quantity; False too where that cannot be said here."""
        node = root.at(path)
        if node is None or not _is_quantity(node.value):
            return False
        text = json.dumps(node.value)
        return any(_takes(each, text) for each in self._at(root, path))

    def _at(self, root: TreeNode, path: Path) -> Iterator[TypeAdapter[Any]]:
        name = str(path[-1])
        for model in models_at(Point, root, path[:-1]):
            if (model, name) not in self._types:
                self._types[model, name] = _type_of(model, name)
            found = self._types[model, name]
            if found is not None:
                yield found


def _type_of(model: Any, name: str) -> TypeAdapter[Any] | None:
    """Return the type of a key; None if it has none, or a check of its own beside the type."""
    field = field_of(model, name)
    checks = model.__pydantic_decorators__.field_validators.values()
    checked = {each for check in checks for each in check.info.fields}
    if field is None or any(model.model_fields[each] is field for each in checked if each in model.model_fields):
        return None
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind)


def _takes(key: TypeAdapter[Any], text: str) -> bool:
    try:
        key.validate_json(text, strict=True, context={KEYS_ALONE})
    except ValidationError:
        return False
    return True


def _is_quantity(value: Any) -> bool:
    if isinstance(value, str):
        return read_quantity(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)
