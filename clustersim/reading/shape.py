"""Finds the models that are allowed at a place of the tree, to name the known keys in messages."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from clustersim.errors import squashed
from clustersim.reading.tree import Path, TreeNode
from clustersim.spec import is_of_software

TAGS = ("kind", "template")
"""Keys that select the model of a map."""


def models_at(model: Any, root: TreeNode, path: Path) -> list[type[BaseModel]]:
    """Return the possible models of the map at this path, narrowed by its `kind` if it has one.

    `model` is the model of the whole tree, or a union of models.
    """
    return [kind for kind in _narrowed(_kinds_at(model, root, path), root.at(path)) if _is_model(kind)]


def takes_list(model: Any, root: TreeNode, path: Path) -> bool:
    """Return whether a list is allowed at this path, whatever its elements; true if the path is unknown."""
    kinds = _kinds_at(model, root, path)
    return not kinds or any(
        kind is Any or (get_origin(kind) or kind) in (list, tuple, set, frozenset) for kind in kinds
    )


def known_keys(models: list[type[BaseModel]]) -> list[str]:
    """Return the keys of these models, in order, without those that a file gives as `software` only."""
    return list(
        dict.fromkeys(
            field.alias or name
            for model in models
            for name, field in model.model_fields.items()
            if not is_of_software(field)
        )
    )


def places_of(model: Any, key: str) -> list[str]:
    """Return where else a key of this spelling is, as dotted keys, the outermost first."""
    found: list[str] = []
    waiting, seen = [("", kind) for kind in _flat(model)], set()
    while waiting:
        where, kind = waiting.pop(0)
        if not _is_model(kind):
            waiting += [(where, part) for argument in get_args(kind) for part in _flat(argument)]
            continue
        if kind in seen:
            continue
        seen.add(kind)
        for name, field in kind.model_fields.items():
            path = f"{where}.{field.alias or name}".lstrip(".")
            found += [path] if squashed(field.alias or name) == squashed(key) else []
            waiting += [(path, part) for part in _flat(field.annotation)]
    return list(dict.fromkeys(found))


def known_kinds(models: list[type[BaseModel]]) -> list[str]:
    """Return the possible values of `kind` in these models, in alphabetical order."""
    return sorted({kind for model in models for kind in kinds_of(model)})


def kinds_of(model: type[BaseModel], tag: str = "kind") -> tuple[str, ...]:
    """Return the values of a model's `kind` (or of another tag); none if it has no such key."""
    field = model.model_fields.get(tag)
    if field is None:
        return ()
    return tuple(
        str(value) for part in _flat(field.annotation) if get_origin(part) is Literal for value in get_args(part)
    )


def field_of(model: type[BaseModel], key: str) -> FieldInfo | None:
    """Return the field with the alias or name `key`."""
    for name, field in model.model_fields.items():
        if key == (field.alias or name):
            return field
    return None


def _kinds_at(model: Any, root: TreeNode, path: Path) -> list[Any]:
    kinds: list[Any] = _flat(model)
    node: TreeNode | None = root
    for key in path:
        kinds = [found for kind in _narrowed(kinds, node) for found in _step(kind, key)]
        node = node.child(key) if node is not None else None
    return kinds


def _step(kind: Any, key: str | int) -> list[Any]:
    if _is_model(kind):
        field = field_of(kind, str(key))
        return _flat(field.annotation) if field is not None else []
    arguments = get_args(kind)
    if isinstance(key, int) and get_origin(kind) in (list, tuple) and arguments:
        return [part for argument in arguments if argument is not Ellipsis for part in _flat(argument)]
    if get_origin(kind) is dict:
        return _flat(arguments[1])
    return []


def _flat(annotation: Any) -> list[Any]:
    if hasattr(annotation, "__value__"):  # a `type` alias
        return _flat(annotation.__value__)
    if get_origin(annotation) is Annotated:
        return _flat(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [part for argument in get_args(annotation) for part in _flat(argument)]
    return [annotation]


def _narrowed(kinds: list[Any], node: TreeNode | None) -> list[Any]:
    """Return the models that a map's `kind` or `template`, or one of its keys, names; all models if none does."""
    for tag in TAGS:
        given = node.children.get(tag) if node is not None else None
        named = [model for model in kinds if _is_model(model) and given and str(given.value) in kinds_of(model, tag)]
        if named:
            return named
    keys = node.children if node is not None else {}
    return [model for model in kinds if getattr(model, "named_by", None) in keys] or kinds


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
