"""Quantities of conditions: values in SI units that know what they are, such as a rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clustersim.units import read_quantity

_UNITS: Mapping[str, Mapping[str, int]] = {
    "duration": {"s": 1},
    "size": {"B": 1},
    "rate": {"B": 1, "s": -1},
    "sample rate": {"samples": 1, "s": -1},
    "power": {"W": 1},
    "flop": {"FLOP": 1},
    "flop rate": {"FLOP": 1, "s": -1},
}
"""The power of each SI unit in what `read_quantity` reads."""


@dataclass(frozen=True)
class Quantity:
    """A value in SI units; `powers` has the units in it, in alphabetic order, each with its power."""

    value: float
    powers: tuple[tuple[str, int], ...]
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text or f"{self.value:g} {self.unit}"

    @property
    def unit(self) -> str:
        """The unit as text, such as `B/s`."""
        above = [f"{unit}^{power}" if power > 1 else unit for unit, power in self.powers if power > 0]
        below = [f"/{unit}^{-power}" if power < -1 else f"/{unit}" for unit, power in self.powers if power < 0]
        return (" ".join(above) or "1") + "".join(below)

    @property
    def what(self) -> str:
        """What it is a quantity of, as words."""
        known = [what for what, powers in _UNITS.items() if dict(self.powers) == powers]
        return f"a {known[0]}" if known else f"in {self.unit}"


Amount = int | float | Quantity


def quantity_of(text: str) -> Quantity | None:
    """Return the quantity of a text; None where it is none.

    >>> str(quantity_of("1 Gbit/s")), quantity_of("1 Gbit/s").what, quantity_of("ring")
    ('1 Gbit/s', 'a rate', None)
    """
    found = read_quantity(text)
    return None if found is None else Quantity(found[1], tuple(sorted(_UNITS[found[0]].items())), text.strip())


def with_units(value: float, left: Amount, right: Amount, sign: int) -> Amount:
    """Return a product (`sign` 1) or a quotient (-1) of two amounts with its unit.

    >>> str(with_units(2.0, quantity_of("4 B"), quantity_of("2 s"), -1))
    '2 B/s'
    """
    powers = dict(_powers(left))
    for unit, power in _powers(right):
        powers[unit] = powers.get(unit, 0) + sign * power
    left_over = tuple(sorted((unit, power) for unit, power in powers.items() if power))
    return Quantity(value, left_over) if left_over else value


def same_unit(left: Amount, right: Amount) -> str | None:
    """Return why two amounts cannot be compared or added; None if they can: 0 may have any unit."""
    if _powers(left) == _powers(right) or 0 in (left, right):
        return None
    for one, other in ((left, right), (right, left)):
        if not isinstance(one, Quantity):
            return f"{one} has no unit, and {other} is {of(other)}; write a unit"
    return f"{left} is {of(left)}, and {right} is {of(right)}"


def of(amount: Amount) -> str:
    """Return what an amount is, as words."""
    return amount.what if isinstance(amount, Quantity) else "a number"


def without_unit(amount: Amount) -> int | float:
    """Return an amount without its unit."""
    return amount.value if isinstance(amount, Quantity) else amount


def _powers(amount: Amount) -> tuple[tuple[str, int], ...]:
    return amount.powers if isinstance(amount, Quantity) else ()
