"""Parses quantities (`56 Gbit/s`, `1.5 us`, `25 MiB`) and formats numbers for reports.

Values are in SI units: seconds, bytes, bytes per second, watts, FLOP, FLOP per second. Case matters: `B` is a byte,
`bit` is a bit, and `b` is not a unit. A number without a unit is refused, except zero.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from clustersim.errors import InputError

_SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_IEC = {f"{prefix}i": 1024.0 ** (power + 1) for power, prefix in enumerate("KMGTP")}
_PREFIXES = {**_SI, **_IEC}

_SIZES = {f"{p}B": f for p, f in _PREFIXES.items()} | {f"{p}bit": f / 8 for p, f in _PREFIXES.items()}
_RATES = (
    {f"{unit}/s": factor for unit, factor in _SIZES.items()}
    | {f"{p}bps": f / 8 for p, f in _PREFIXES.items()}
    | {f"{p}Bps": f for p, f in _PREFIXES.items()}
)
_FLOP = {f"{p}FLOP": f for p, f in _SI.items()} | {f"{p}MAC": 2 * f for p, f in _SI.items()}
_FLOP_RATES = {f"{p}FLOP/s": f for p, f in _SI.items()} | {f"{p}FLOPS": f for p, f in _SI.items()}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_SAMPLE_RATES = {f"{p}{what}/s": f for p, f in _SI.items() for what in ("samples", "images", "tokens")}

_QUANTITIES: dict[str, tuple[dict[str, float], str, str]] = {
    "duration": (_TIMES, "a duration", "'1.5 us'"),
    "size": (_SIZES, "a size", "'25 MiB'"),
    "rate": (_RATES, "a rate", "'100 Gbit/s'"),
    "sample rate": (_SAMPLE_RATES, "a rate of samples", "'2000 samples/s'"),
    "power": ({f"{p}W": f for p, f in _SI.items()}, "a power", "'500 W'"),
    "flop": (_FLOP, "a FLOP count", "'3.2 GFLOP'"),
    "flop rate": (_FLOP_RATES, "a compute rate", "'9.3 TFLOP/s'"),
}

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*", re.ASCII)


def parse(text: object, quantity: str) -> float:
    """Parse a quantity (a key of `_QUANTITIES`, such as `duration`) and return it in SI units.

    >>> parse("56 Gbit/s", "rate")
    7000000000.0
    >>> parse("100 Gb/s", "rate")
    Traceback (most recent call last):
    clustersim.errors.InputError: expected a rate, such as '100 Gbit/s' (got '100 Gb/s': write Gbit/s or GB/s)
    """
    units, expected, example = _QUANTITIES[quantity]
    if isinstance(text, int | float) and not isinstance(text, bool) and text == 0:
        return 0.0
    match = _NUMBER.fullmatch(text) if isinstance(text, str) and len(text) < 100 else None
    if match and match[2] in units:
        value = float(match[1]) * units[match[2]]
        if math.isfinite(value) and value >= 0:
            return value
        reason = "it must not be negative" if value < 0 else "it is too large"
    else:
        reason = _reason(text, match[2] if match else None, units)
    shown = str(text)[:60]
    raise InputError(
        f"expected {expected}, such as {example} (got '{shown}'{': ' if reason else ''}{reason})",
        got=shown,
        allowed=f"{expected}, such as {example}",
    )


def read_quantity(text: str) -> tuple[str, float] | None:
    """Return what a text is a quantity of, and its value in SI units; None where it is none.

    >>> read_quantity("200 Gbit/s"), read_quantity("ring")
    (('rate', 25000000000.0), None)
    """
    for quantity, (units, _, _) in _QUANTITIES.items():
        match = _NUMBER.fullmatch(text) if len(text) < 100 else None
        if match and match[2] in units:
            return quantity, parse(text, quantity)
    return None


def _reason(text: object, unit: str | None, units: dict[str, float]) -> str:
    if (isinstance(text, int | float) and not isinstance(text, bool)) or unit == "":
        return "a number needs a unit"
    if unit is None:
        return ""
    prefix_bits = re.fullmatch(r"([kKMGTP]i?)?b(/s|ps)?", unit)
    if prefix_bits:
        prefix, per = prefix_bits[1] or "", prefix_bits[2] or ""
        per = "/s" if any(name.endswith("/s") for name in units) else per
        return f"write {prefix}bit{per} or {prefix}B{per}"
    of_ethernet = re.fullmatch(r"([kmgt])(be)?", unit, re.IGNORECASE)
    if of_ethernet and "Gbit/s" in units:
        return f"write {of_ethernet[1].upper().replace('K', 'k')}bit/s"
    for name in units:
        if name.lower() == unit.lower():
            return f"write {name}"
    if f"{unit}/s" in units:
        return f"write {unit}/s"
    if unit.endswith("/s") and unit[:-2] in units:
        return f"write {unit[:-2]}"
    return f"'{unit}' is not a unit of this quantity"


def _field(quantity: str) -> tuple[Any, Any]:
    units, _, example = _QUANTITIES[quantity]
    names = "|".join(re.escape(name) for name in units if name.isascii())
    schema = {
        "type": ["string", "number"],
        "pattern": rf"^\s*\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*({names})\s*$",
        "examples": [example.strip("'")],
    }
    return BeforeValidator(lambda value: parse(value, quantity)), WithJsonSchema(schema)


Duration = Annotated[float, *_field("duration")]
Size = Annotated[float, *_field("size")]
Bandwidth = Annotated[float, *_field("rate")]
SampleRate = Annotated[float, *_field("sample rate")]
FlopRate = Annotated[float, *_field("flop rate")]
Power = Annotated[float, *_field("power")]


def format_duration(seconds: float) -> str:
    """Return a duration as text with a unit.

    >>> format_duration(0.00123), format_duration(37800)
    ('1.23 ms', '10.5 h')
    """
    for unit, factor in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= factor * (2 if unit in ("h", "min") else 1):
            return f"{_digits(seconds / factor)} {unit}"
    return "0 s" if seconds == 0 else f"{_digits(seconds / 1e-9)} ns"


def format_size(num_bytes: float) -> str:
    """Return a number of bytes as text, in powers of 1000.

    >>> format_size(53_500_000)
    '53.5 MB'
    """
    return f"{_scaled(num_bytes)}B"


def format_rate(bytes_per_s: float) -> str:
    """Return a rate as text, in powers of 1000.

    >>> format_rate(7e9)
    '7.00 GB/s'
    """
    return f"{_scaled(bytes_per_s)}B/s"


def _scaled(value: float) -> str:
    for prefix in ("P", "T", "G", "M", "k"):
        if abs(value) >= _SI[prefix]:
            return f"{_digits(value / _SI[prefix])} {prefix}"
    return f"{_digits(value)} "


def _digits(value: float) -> str:
    """Return a number with three significant digits, without an exponent."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"
