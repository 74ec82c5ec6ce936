"""Metrics: dotted paths of figures in `clustersim.result/1` or `clustersim.collective/1`, and their units.

The end of a metric's name gives its quantity, and the quantity its units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clustersim.errors import InputError, unknown_name

_DURATIONS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SAMPLE_RATES = {f"{what}/s": 1.0 for what in ("samples", "images", "sequences", "tokens")}
_RATES = {"GB/s": 1e9, "MB/s": 1e6, "bytes/s": 1.0}
_SHARES = {"%": 0.01, "1": 1.0}

METRICS: Mapping[str, Mapping[str, float]] = {
    "iteration_s": _DURATIONS,
    "update_s": _DURATIONS,
    "time_to_train_s": _DURATIONS,
    "samples_per_s": _SAMPLE_RATES,
    "speedup": {"x": 1.0},
    "efficiency": _SHARES,
    "breakdown_s.compute": _DURATIONS,
    "breakdown_s.communication_exposed": _DURATIONS,
    "breakdown_s.waiting": _DURATIONS,
    "staleness.mean": {"updates": 1.0},
    "staleness.p99": {"updates": 1.0},
    "staleness.max": {"updates": 1.0},
    "time_s": _DURATIONS,
    "algbw_bytes_per_s": _RATES,
    "busbw_bytes_per_s": _RATES,
}
"""Every metric: its units, each with its size in SI."""


SPEEDS = ("samples_per_s", "iteration_s", "update_s", "time_to_train_s", "speedup", "efficiency")
"""Metrics of the speed of a whole training."""


def units_of(metric: str) -> Mapping[str, float]:
    """Return the units of a metric, each with its size in SI.

    >>> list(units_of("speedup"))
    ['x']
    """
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    return METRICS[metric]


def si_unit(metric: str, unit: str) -> str:
    """Return the SI unit of a metric; a unit of size 1, such as images/s, stays.

    >>> si_unit("time_to_train_s", "h"), si_unit("samples_per_s", "images/s"), si_unit("busbw_bytes_per_s", "GB/s")
    ('s', 'images/s', 'bytes/s')
    """
    units = units_of(metric)
    return unit if units[unit] == 1.0 else next(name for name, size in units.items() if size == 1.0)


def simulated(document: Mapping[str, Any], metric: str, unit: str) -> float:
    """Return a metric of a run's or a collective's JSON document in the given unit.

    >>> simulated({"breakdown_s": {"compute": 0.25}}, "breakdown_s.compute", "ms")
    250.0
    """
    value: Any = document
    for key in metric.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None:
        raise InputError(f"the simulation has no '{metric}' here", got=metric, allowed=", ".join(_numbers(document)))
    return float(value) / units_of(metric)[unit]


def _numbers(document: Mapping[str, Any]) -> list[str]:
    """Return the metrics in a document."""
    found = []
    for metric in METRICS:
        first, _, rest = metric.partition(".")
        value = document.get(first)
        value = value.get(rest) if rest and isinstance(value, Mapping) else value
        found += [metric] if isinstance(value, int | float) else []
    return found
