"""The constants of a transport sheet that can be fitted, and the result of a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from clustersim.hardware.sheet import Transport


@dataclass(frozen=True)
class Range:
    """The least and the most value of a constant, and where to start if the sheet has zero; SI."""

    least: float
    most: float
    small: float
    unit: str


CONSTANTS: Mapping[str, Range] = {
    "overhead_s": Range(0.0, math.inf, 1e-6, "s"),
    "host_overhead_s": Range(0.0, math.inf, 1e-6, "s"),
    "efficiency": Range(1e-3, 1.0, 0.5, "1"),
    "add_s_per_byte": Range(0.0, math.inf, 1e-11, "s/byte"),
}
"""The constants of a transport sheet; each is fitted if the sheet has it and the figures depend on it."""

FITTED, LIMIT, UNKNOWN, HELD = "fitted", "at its limit", "not determined", "held"
"""States of a constant after a fit. At its limit it has no standard error; not determined or held, it is unchanged."""


@dataclass(frozen=True)
class FittedConstant:
    """A constant before and after the fit; SI. `standard_error` is None if it has none."""

    key: str
    unit: str
    before: float
    value: float
    standard_error: float | None
    state: str
    source: str


@dataclass(frozen=True)
class Residual:
    """A figure, and its simulated values before and after the fit; error is simulated / measured - 1."""

    what: str
    source: str
    line: int
    num_bytes: float
    num_gpus: int
    measured_s: float
    before_s: float
    simulated_s: float

    @property
    def error(self) -> float:
        return self.simulated_s / self.measured_s - 1.0

    @property
    def error_before(self) -> float:
        return self.before_s / self.measured_s - 1.0


@dataclass(frozen=True)
class Fit:
    """A transport before and after the fit, its constants, and every figure."""

    before: Transport
    after: Transport
    constants: tuple[FittedConstant, ...]
    residuals: tuple[Residual, ...]

    @property
    def median_abs_error(self) -> float:
        return median(abs(point.error) for point in self.residuals)

    @property
    def median_abs_error_before(self) -> float:
        return median(abs(point.error_before) for point in self.residuals)

    @property
    def sources(self) -> tuple[str, ...]:
        """The logs or cases of the figures."""
        return tuple(dict.fromkeys(point.source for point in self.residuals))
