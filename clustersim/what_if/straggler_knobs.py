"""Knobs of stragglers: how much compute times vary, and one slow GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clustersim.what_if.base import Base
from clustersim.what_if.knob import Knob, Stop
from clustersim.what_if.scale import numbers

_CVS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_FACTORS = (1.1, 1.2, 1.5, 2.0, 4.0)
_KEY = "stragglers"


def straggler_knobs(base: Base) -> Iterator[Knob]:
    """Yield the variation of compute times and the factor of one slow GPU: the scenario's own, or one that is added."""
    varies, slow = "Variation of compute times (cv)", "One slow GPU, times as slow"
    yield _own(base, "cv", varies, _CVS) or _added("variation", varies, "none", _CVS, {"kind": "lognormal"}, "cv")
    yield _own(base, "factor", slow, _FACTORS) or _added(
        "slow-gpu", slow, "none", _FACTORS, {"kind": "constant", "of": [0]}, "factor"
    )


def _own(base: Base, field: str, label: str, values: tuple[float, ...]) -> Knob | None:
    """Return the knob of the first straggler of the scenario that has a field; None without one."""
    for number, straggler in enumerate(_listed(base)):
        now = straggler.get(field) if isinstance(straggler, dict) else None
        if isinstance(now, int | float):
            place = "" if isinstance(base.written(_KEY), dict) else f".{number}"
            return numbers(base, f"{_KEY}{place}.{field}", label, values, now)
    return None


def _added(name: str, label: str, off: str, values: tuple[float, ...], entry: dict[str, Any], field: str) -> Knob:
    """Return the knob of a straggler that is added to those of the scenario; none of it to begin with."""
    start = 0.0 if field == "cv" else 1.0
    stops = (Stop(None, off, start), *(Stop(value, f"{value:g}", value) for value in values))
    return Knob(name, _KEY, label, "number", stops, 0, entry=tuple(entry.items()), field=field)


def _listed(base: Base) -> list[Any]:
    return stragglers_of(base.written(_KEY))


def stragglers_of(written: Any) -> list[Any]:
    """Return the value of `stragglers` as a list, however it is written."""
    if written is None:
        return []
    return [written] if isinstance(written, dict) else list(written)
