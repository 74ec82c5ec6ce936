"""Rates and delays as SimGrid's platform files write them."""

from __future__ import annotations

import re
from math import isfinite

from clustersim.errors import InputError

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z]*)\s*")
_PREFIXES = {
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
_RATES = {
    f"{prefix}{unit}": size * part
    for prefix, size in _PREFIXES.items()
    for unit, part in (("Bps", 1.0), ("bps", 1 / 8))
}
_TIMES = {
    "w": 604800.0,
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "ps": 1e-12,
}


def rate_bytes_per_s(text: str, key: str) -> float:
    """Return bytes per second; a number without a unit is in bytes per second.

    >>> rate_bytes_per_s("125MBps", "bandwidth"), rate_bytes_per_s("1Gbps", "bandwidth")
    (125000000.0, 125000000.0)
    """
    found = _parsed(text, _RATES, key, "a rate, such as 125MBps or 1Gbps")
    if found <= 0:
        raise InputError(
            f"{key} must be above zero (got {text[:40]})", key=key, got=text[:40], allowed="a rate above zero"
        )
    return found


def delay_s(text: str, key: str) -> float:
    """Return seconds; a number without a unit is in seconds.

    >>> delay_s("50ms", "latency")
    0.05
    """
    return _parsed(text, _TIMES, key, "a time, such as 50us")


def _parsed(text: str, units: dict[str, float], key: str, allowed: str) -> float:
    match = _NUMBER.fullmatch(text[:80])
    scale = units.get(match[2] or "") if match else None
    if match and not match[2]:
        scale = 1.0
    value = float(match[1]) * scale if match and scale is not None else -1.0
    if not (isfinite(value) and 0 <= value <= 1e18):
        raise InputError(f"{key} is not {allowed} (got '{text[:40]}')", key=key, got=text[:40], allowed=allowed)
    return value
