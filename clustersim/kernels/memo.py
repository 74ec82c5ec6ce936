"""What is worked out of a model once, and then known: other points of a sweep, or of a case, ask for the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import ParamSpec, TypeVar

Asked = ParamSpec("Asked")
Found = TypeVar("Found")

_PLAIN = (str, int, float, type(None))


def once(most: int) -> Callable[[Callable[Asked, Found]], Callable[Asked, Found]]:
    """Return what lets a function keep its `most` latest values, which nobody may write to.

    Numbers and words among its arguments, and tuples of them, are the same where they are equal; all else, such as a
    model with its thousands of layers, where it is the very same object, which is kept as long as its value.

    >>> @once(8)
    ... def doubled(numbers: list[int]) -> tuple[int, ...]:
    ...     return tuple(2 * number for number in numbers)
    >>> numbers = [1, 2]
    >>> doubled(numbers) is doubled(numbers), doubled(numbers) is doubled([1, 2])
    (True, False)
    """

    def keeping(find: Callable[Asked, Found]) -> Callable[Asked, Found]:
        known: dict[Hashable, tuple[object, Found]] = {}

        @wraps(find)
        def look(*args: Asked.args, **named: Asked.kwargs) -> Found:
            key = *map(_name, args), *((word, _name(named[word])) for word in sorted(named))
            if key not in known:
                value = find(*args, **named)
                if len(known) >= most:
                    del known[next(iter(known))]
                known[key] = (args, named), value
            return known[key][1]

        return look

    return keeping


def _name(what: object) -> Hashable:
    """Return what tells an argument from others."""
    if isinstance(what, tuple):
        return type(what), *map(_name, what)
    return (type(what), what) if isinstance(what, _PLAIN) else (object, id(what))
