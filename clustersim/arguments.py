"""Checks arguments of Python calls: a wrong one raises an `InputError` with the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from clustersim.errors import InputError

_SHOWN = 60


def check_type(name: str, value: object, kinds: type | tuple[type, ...], allowed: str) -> None:
    """Refuse a value of another type than `kinds`.

    >>> check_type("env", None, (int, float), "a number")
    Traceback (most recent call last):
    clustersim.errors.InputError: env must be a number (got None)
    """
    if not isinstance(value, kinds):
        raise _refused(name, value, allowed)


def check_callable(name: str, value: object, allowed: str) -> None:
    """Refuse a value that is not callable.

    >>> check_callable("progress", 3, "a function of a share and a point")
    Traceback (most recent call last):
    clustersim.errors.InputError: progress must be a function of a share and a point (got 3)
    """
    if not callable(value):
        raise _refused(name, value, allowed)


def check_texts(name: str, values: object, allowed: str) -> None:
    """Refuse a value that is not a list of texts; a single text is not one.

    >>> check_texts("overrides", "seed=1", "a list of texts")
    Traceback (most recent call last):
    clustersim.errors.InputError: overrides must be a list of texts (got 'seed=1')
    """
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise _refused(name, values, allowed)
    if not all(isinstance(text, str) for text in values):
        raise _refused(name, values, allowed)


def check_number(
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    is_whole: bool = False,
    may_be_infinite: bool = False,
) -> None:
    """Refuse a value that is not a real number within these bounds; numpy numbers are allowed.

    >>> check_number("efficiency", 1.5, above=0, most=1)
    Traceback (most recent call last):
    clustersim.errors.InputError: efficiency must be a number above 0 and at most 1 (got 1.5)
    """
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
        is_right = least <= number <= most and number > above and (may_be_infinite or math.isfinite(number))
        is_right = is_right and (not is_whole or number == int(number))
    except (TypeError, ValueError, OverflowError):
        is_right = False
    if not is_right:
        kind = (
            "a whole number"
            if is_whole
            else "a number"
            if may_be_infinite or math.isfinite(most)
            else "a finite number"
        )
        bounds = [
            *([f"above {above:g}"] if above > -math.inf else []),
            *([f"of at least {least:g}"] if least > -math.inf else []),
            *([f"at most {most:g}"] if most < math.inf else []),
        ]
        raise _refused(name, value, " ".join([kind, " and ".join(bounds)]).strip())


def as_numbers(name: str, values: object) -> np.ndarray:
    """Return real numbers as an array of floats, of any shape.

    >>> as_numbers("start_s", ["now"])
    Traceback (most recent call last):
    clustersim.errors.InputError: start_s must be numbers (got ['now'])
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biuf" or array.size == 0:
            return array.astype(float)
    except (TypeError, ValueError):
        pass  # reported below
    raise _refused(name, values, "numbers")


def _refused(name: str, value: object, allowed: str) -> InputError:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    return InputError(f"{name} must be {allowed} (got {shown})", got=shown, allowed=allowed)
