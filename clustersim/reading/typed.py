"""Checks that a value read from a file has the types that a dataclass declares, down to every number."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def wrong_types(value: Any, annotation: Any, where: str = "") -> Iterator[str]:
    """Yield what is wrong with a value: the path of a part, what it is, and what is declared there.

    Numbers are finite. Dataclasses and named tuples are checked field by field, and so are lists and maps; a type of
    another kind by its class alone.

    >>> list(wrong_types({"a": [1.0, "x"]}, Mapping[str, tuple[float, ...]], "shares"))
    ["shares.a.1 is 'x', not a number"]
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return
    if origin in (Union, types.UnionType):
        if not any(next(wrong_types(value, each, where), None) is None for each in inner):
            yield _wrong(value, where, " or ".join(map(_named, inner)))
    elif origin is Literal:
        if value not in inner:
            yield _wrong(value, where, " or ".join(map(repr, inner)))
    elif origin in (tuple, list):
        yield from _wrong_row(value, inner if origin is tuple else (*inner, ...), where)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _wrong_map(value, inner, where)
    elif is_dataclass(annotation):
        yield from _wrong_fields(value, annotation, where)
    elif _is_named_tuple(annotation):
        yield from _wrong_row(value, tuple(get_type_hints(annotation).values()), where)
    elif not _fits(value, origin or annotation):
        yield _wrong(value, where, _named(annotation))


def _wrong_row(value: Any, inner: tuple[Any, ...], where: str) -> Iterator[str]:
    if not isinstance(value, list | tuple):
        yield _wrong(value, where, "a list")
        return
    if len(inner) == 2 and inner[1] is Ellipsis:
        inner = (inner[0],) * len(value)
    if len(value) != len(inner):
        yield f"{where} is a list of {len(value)}, not of {len(inner)}"
        return
    for number, (part, annotation) in enumerate(zip(value, inner, strict=True)):
        yield from wrong_types(part, annotation, f"{where}.{number}".lstrip("."))


def _wrong_map(value: Any, inner: tuple[Any, ...], where: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield _wrong(value, where, "a map")
        return
    for key, part in value.items():
        yield from wrong_types(part, inner[1], f"{where}.{key}".lstrip("."))


def _wrong_fields(value: Any, annotation: Any, where: str) -> Iterator[str]:
    if not isinstance(value, annotation):
        yield _wrong(value, where, "a map")
        return
    for name, hint in _hints(annotation).items():
        yield from wrong_types(getattr(value, name), hint, f"{where}.{name}".lstrip("."))


def _is_named_tuple(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields")


@lru_cache(maxsize=64)
def _hints(annotation: Any) -> Mapping[str, Any]:
    try:
        hints = get_type_hints(annotation)
    except TypeError:  # arrays of the standard library, which have only numbers of one type
        return {}
    return {each.name: hints[each.name] for each in fields(annotation)}


def _fits(value: Any, declared: Any) -> bool:
    if declared is None or declared is types.NoneType:
        return value is None
    if declared is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if declared is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, declared)


_NAMES = {float: "a number", int: "a whole number", str: "text", bool: "true or false", types.NoneType: "nothing"}


def _named(annotation: Any) -> str:
    origin = get_origin(annotation) or annotation
    named = (
        "a list" if origin is tuple else "a map" if is_dataclass(origin) else getattr(origin, "__name__", str(origin))
    )
    return _NAMES.get(origin, named)


def _wrong(value: Any, where: str, declared: str) -> str:
    text = repr(value)
    return f"{where} is {text if len(text) <= 40 else f'{text[:37]}...'}, not {declared}"
