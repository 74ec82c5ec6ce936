"""Values drawn at random from lists and ranges: the same on every machine, each key with a random stream of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import exp, floor, isfinite, log, log10
from typing import Any

import numpy as np

from clustersim.errors import InputError
from clustersim.scenario.sweep_keys import DrawRange, SweepDraws
from clustersim.seeding import stream
from clustersim.units import read_quantity

_DIGITS = 4
"""Significant digits of drawn numbers; as many more as a range is smaller than its values."""

_EXACT = 12
"""Significant digits of bounds and of multiples of a step, which have few of their own."""

Quantile = Callable[[float], Any]
"""Returns the value at a share of a range, 0 to 1 (excluded)."""


def drawn(draws: SweepDraws, method: str) -> list[Callable[[int], Any]]:
    """Return for each key a function of the number of the point that returns its value.

    Of `random` draws, the first points do not depend on how many there are. A Latin hypercube (McKay, Beckman and
    Conover, 1979) has each key's range cut into as many equal parts as points, with one point in each part.
    """
    return [_of_key(draws, method, key, values) for key, values in draws.keys.items()]


def _of_key(draws: SweepDraws, method: str, key: str, values: list[Any] | DrawRange) -> Callable[[int], Any]:
    try:
        quantile = _of_list(values) if isinstance(values, list) else _of_range(values)
    except InputError as error:
        where = f"sweep.{method}.keys.{key}"
        raise InputError(str(error.mistakes[0].message), got=error.mistakes[0].got, key=where) from None
    rng = stream(draws.seed, "sweep", method, key)
    shares = rng.random(draws.points)
    if method == "latin-hypercube":
        shares = (np.argsort(rng.random(draws.points), kind="stable") + shares) / draws.points
    return lambda number: quantile(min(float(shares[number]), 1.0 - 1e-16))


def _of_list(values: Sequence[Any]) -> Quantile:
    return lambda share: values[floor(share * len(values))]


def _of_range(bounds: DrawRange) -> Quantile:
    """Return the value at a share of a range, as a number or a text with the unit of its largest value."""
    low, high, unit, factor = _bounds(bounds)
    is_whole = isinstance(bounds.min, int) and isinstance(bounds.max, int)
    more = max(0, floor(log10(max(abs(low), abs(high)) / (high - low))))
    digits = _EXACT if bounds.step is not None else _DIGITS + more

    def written(value: float) -> Any:
        """Return a value as a scenario has it, rounded so that every machine writes the same digits."""
        if is_whole:
            return round(value)
        text = f"{value / factor:.{digits}g}"
        if not low <= float(text) * factor <= high:  # by rounding
            text = f"{(low if value - low < high - value else high) / factor:.{_EXACT}g}"
        return f"{text} {unit}" if unit else float(text)

    if bounds.log:
        start, stop = (log(low - 0.5), log(high + 0.5)) if is_whole else (log(low), log(high))
        return lambda share: written(exp(start + (stop - start) * share))
    if is_whole or bounds.step is not None:
        step = _step(bounds, is_whole, (high - low) / factor) * factor
        count = floor((high - low) / step * (1 + 1e-12)) + 1
        return lambda share: written(low + step * floor(share * count))
    return lambda share: written(low + (high - low) * share)


def _step(bounds: DrawRange, is_whole: bool, extent: float) -> float:
    """Return the step of a range; refuse one that is no step between whole numbers, or larger than the range."""
    if bounds.step is None:
        return 1.0
    if is_whole and not bounds.step.is_integer():
        message = (
            f"a step between whole numbers is whole (got {bounds.step:g}); write min: {float(bounds.min)} for others"
        )
        raise InputError(message, got=f"{bounds.step:g}", allowed="a whole number")
    if bounds.step > extent * (1 + 1e-12):
        message = f"the step is larger than the range (got {bounds.step:g}); a range with one value is a list of one"
        raise InputError(message, got=f"{bounds.step:g}", allowed=f"at most {extent:g}")
    return bounds.step


def _bounds(bounds: DrawRange) -> tuple[float, float, str, float]:
    """Return the bounds of a range in SI units, and the unit of quantities with its size; refuse wrong ones."""
    unit, factor = "", 1.0
    if isinstance(bounds.min, str) or isinstance(bounds.max, str):
        (low, _), (high, unit) = _in_si(bounds.min, bounds.max), _in_si(bounds.max, bounds.min)
        factor = _factor(str(bounds.max), high)
    else:
        low, high = float(bounds.min), float(bounds.max)
    if not (isfinite(low) and isfinite(high) and low < high):
        message = f"the smallest value must be below the largest (got {bounds.min} to {bounds.max})"
        raise InputError(message, got=f"{bounds.min} to {bounds.max}", allowed="min below max")
    if bounds.log and (low <= 0 or bounds.step is not None):
        what = "a step" if bounds.step is not None else str(bounds.min)
        message = f"a logarithmic range has bounds above 0 and no step (got {what})"
        raise InputError(message, got=what, allowed="min above 0, without step")
    return low, high, unit, factor


def _in_si(text: Any, other: Any) -> tuple[float, str]:
    """Return a bound in SI units, and its unit; both bounds must be quantities of one kind."""
    found = [read_quantity(each) if isinstance(each, str) else None for each in (text, other)]
    if found[0] is None or found[1] is None or found[0][0] != found[1][0]:
        message = f"the bounds must be two numbers or two quantities with units of one kind (got {text} and {other})"
        raise InputError(message, got=str(text), allowed="numbers, or quantities such as 100 Gbit/s")
    return found[0][1], str(text).strip().lstrip("+-.0123456789eE").strip()


def _factor(text: str, value_si: float) -> float:
    """Return the size of a quantity's unit in SI units."""
    number = re.match(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text)
    return value_si / float(number[0]) if number is not None and float(number[0]) else 1.0
