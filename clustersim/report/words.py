"""Number formatting for texts: few digits, and a thin space before the unit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clustersim.units import format_duration, format_size

THIN = "\u202f"
"""Narrow no-break space, between a number and its unit."""

_TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


def duration(seconds: float) -> str:
    """Return a duration as text.

    >>> duration(0.0123).replace(THIN, " ")
    '12.3 ms'
    """
    return format_duration(seconds).replace(" us", " µs").replace(" ", THIN)


def long_duration(seconds: float) -> str:
    """Return the duration of a whole training as text: in days from two days on.

    >>> long_duration(31.5 * 86400).replace(THIN, " "), long_duration(37800).replace(THIN, " ")
    ('31.5 days', '10.5 h')
    """
    days = seconds / 86400
    return f"{count(float(f'{days:.3g}'))}{THIN}days" if days >= 2 else duration(seconds)


def amount(number: float) -> str:
    """Return a large number with a letter for thousands of millions, as of tokens and dollars.

    >>> amount(1e12), amount(1.5432e6), amount(300e9), amount(12345).replace(THIN, " "), amount(9.5)
    ('1T', '1.54M', '300B', '12 345', '9.5')
    """
    for letter, factor in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if number >= 0.9995 * factor:
            return f"{number / factor:.{max(3, len(str(int(number / factor))))}g}{letter}"
    return count(number)


def size(num_bytes: float) -> str:
    """Return a number of bytes as text, in powers of 1000."""
    return format_size(num_bytes).replace(" ", THIN)


def count(number: float) -> str:
    """Return a count or a rate as text: three significant digits below a thousand, all digits of the whole part above.

    >>> count(12345.6).replace(THIN, " "), count(12.345), count(0.0456), count(64)
    ('12 346', '12.3', '0.0456', '64')
    """
    if number == int(number) or abs(number) >= 1000:
        return f"{number:,.0f}".replace(",", THIN)
    return f"{number:.3g}"


def times(factor: float) -> str:
    """Return a factor as text.

    >>> times(47.04), times(1.234), times(0.5)
    ('47.0×', '1.23×', '0.50×')
    """
    decimals = 2 if abs(factor) < 10 else 1 if abs(factor) < 100 else 0
    return f"{factor:.{decimals}f}×"


def percent(share: float, signed: bool = False) -> str:
    """Return a share as a percentage: whole numbers from 10 on, one decimal below.

    >>> percent(0.431).replace(THIN, " "), percent(-0.034, signed=True).replace(THIN, " ")
    ('43 %', '-3.4 %')
    """
    value = 100 * share
    if abs(value) < 0.005:
        value = 0.0
    decimals = 0 if abs(value) >= 9.95 or value == 0 else 1 if abs(value) >= 0.05 else 2
    return f"{value:{'+' if signed else ''}.{decimals}f}{THIN}%"


def gpus(number: int) -> str:
    """Return a number of GPUs as text.

    >>> gpus(1).replace(THIN, " "), gpus(128).replace(THIN, " ")
    ('1 GPU', '128 GPUs')
    """
    return f"{count(number)}{THIN}GPU{'' if number == 1 else 's'}"


_UNITS = {
    **{"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0},
    **{"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15},
}
_NUMBER = re.compile(rf"[^\d+−-]*([+−-]?\d[\d{THIN}]*(?:\.\d+)?(?:e[+-]?\d+)?)[{THIN} ]?([a-zA-Zµ]*)")


def sort_number(text: str) -> float | None:
    """Return the number by which a cell of a table is sorted: its first one, in base units; None without one.

    >>> sort_number(duration(0.0123)), sort_number("1\u202f074–2\u202f733 ?"), sort_number(percent(-0.034))
    (0.0123, 1074.0, -3.4)
    >>> sort_number("–") is None
    True
    """
    found = _NUMBER.match(text)
    if found is None:
        return None
    return float(found[1].replace(THIN, "").replace("−", "-")) * _UNITS.get(found[2], 1.0)


def versions(age: float) -> str:
    """Return a mean staleness in versions of the weights.

    >>> versions(14.92), versions(0.97)
    ('15', '1.0')
    """
    return f"{age:.0f}" if age >= 9.95 else f"{age:.1f}"


def listed(texts: Sequence[str], last: str = "and") -> str:
    """Return texts as a list in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    return "".join(texts) if len(texts) < 2 else f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def plural(number: int, one: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "layer").replace(THIN, " "), plural(3, "layer").replace(THIN, " ")
    ('1 layer', '3 layers')
    """
    return f"{count(number)}{THIN}{one}{'' if number == 1 else 's'}"


def time_unit(longest_s: float) -> tuple[str, float]:
    """Return the unit in which an axis up to `longest_s` needs no exponent, and its length in seconds.

    >>> time_unit(0.113)
    ('ms', 0.001)
    """
    for name, factor in _TIME_UNITS:
        if longest_s >= factor:
            return name, factor
    return _TIME_UNITS[-1] if longest_s > 0 else _TIME_UNITS[0]


def shortened(text: str, longest: int) -> str:
    """Return a long name with its middle cut out: the end distinguishes names.

    >>> shortened("inception_3a/3x3_reduce", 14)
    'incep…3_reduce'
    """
    if len(text) <= longest:
        return text
    head = (longest - 1) * 2 // 5
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


def plot_text(text: str) -> str:
    """Return a name escaped for plotly, which interprets `<b>` and `&amp;` in texts.

    >>> plot_text("conv<1>")
    'conv&lt;1&gt;'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
