"""A small function cache that compares large arguments by identity: points of a sweep share the same model objects."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

_BY_VALUE = (str, int, float, type(None))


def cached_by_identity(maxsize: int) -> Callable[[Callable[Arguments, Value]], Callable[Arguments, Value]]:
    """Return a decorator that caches the latest `maxsize` values of a function. Callers must not modify the values.

    Numbers and strings among its arguments, and tuples of them, are compared by value. All other arguments, such as a
    model with thousands of layers, are compared by identity, and are kept alive as long as the cached value.

    >>> @cached_by_identity(8)
    ... def doubled(numbers: list[int]) -> tuple[int, ...]:
    ...     return tuple(2 * number for number in numbers)
    >>> numbers = [1, 2]
    >>> doubled(numbers) is doubled(numbers), doubled(numbers) is doubled([1, 2])
    (True, False)
    """

    def decorate(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        cache: dict[Hashable, tuple[object, Value]] = {}

        @wraps(function)
        def cached(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
            key = *map(_key, args), *((name, _key(kwargs[name])) for name in sorted(kwargs))
            if key not in cache:
                value = function(*args, **kwargs)
                if len(cache) >= maxsize:
                    del cache[next(iter(cache))]
                cache[key] = (args, kwargs), value
            return cache[key][1]

        return cached

    return decorate


def _key(argument: object) -> Hashable:
    """Return the cache key of one argument."""
    if isinstance(argument, tuple):
        return type(argument), *map(_key, argument)
    return (type(argument), argument) if isinstance(argument, _BY_VALUE) else (object, id(argument))
