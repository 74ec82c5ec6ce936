"""Stops of knobs: numbers around the scenario's own, and choices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from clustersim.what_if.base import Base
from clustersim.what_if.knob import Knob, Stop, place_of, value_text


def powers(most: int) -> list[int]:
    """Return the powers of two up to a number.

    >>> powers(10)
    [1, 2, 4, 8]
    """
    return [2**power for power in range(most.bit_length()) if 2**power <= most]


def around(number: int, factor: int) -> list[int]:
    """Return a whole number, its doublings up to `factor` times as much, and its halvings that are whole.

    >>> around(12, 4)
    [3, 6, 12, 24, 48]
    """
    down = [number // step for step in powers(factor) if number % step == 0 and number // step >= 1]
    return sorted({*down, *(number * step for step in powers(factor))})


def numbers(base: Base, key: str, label: str, values: Iterable[Any], now: Any, unit: str = "", **parts: Any) -> Knob:
    """Return a knob of numbers in rising order; those that the scenario lists or has are among them."""
    axis = base.listed.get(key)
    listed = [value for value in (axis.values if axis else ()) if isinstance(value, int | float)]
    stops = [Stop(value, f"{value:g}", float(value)) for value in sorted(dict.fromkeys([now, *listed, *values]))]
    return knob(base, key, label, stops, now, kind="number", unit=unit, **parts)


def choices(base: Base, key: str, label: str, values: Sequence[Any], now: Any, **parts: Any) -> Knob:
    """Return a knob of choices; those that the scenario lists or has come first."""
    axis = base.listed.get(key)
    listed = zip(axis.values, axis.labels, strict=True) if axis else [(now, _label(now))]
    stops = [Stop(value, str(text)) for value, text in listed]
    known = {stop.text for stop in stops}
    stops += [Stop(value, _label(value)) for value in values if value_text(value) not in known]
    return knob(base, key, label, stops, now, **parts)


def knob(
    base: Base,
    key: str,
    label: str,
    stops: Sequence[Stop],
    now: Any,
    kind: Literal["choice", "number"] = "choice",
    **parts: Any,
) -> Knob:
    """Return a knob whose current stop is that of the value `now`, or the first one that the scenario lists."""
    first = base.pins.get(key, now)
    found = (place_of(stops, value_text(value)) for value in (first, now))
    current = next((place for place in found if place is not None), 0)
    return Knob(parts.pop("name", key), key, label, kind, tuple(stops), current, **parts)


def _label(value: Any) -> str:
    return "none" if value is None else value_text(value)
