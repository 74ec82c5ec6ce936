"""Simulated times as a function of a transport's constants, and their least squares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from clustersim.errors import SimulationError
from clustersim.hardware.sheet import Transport
from clustersim.simulate.transport_fit.constants import CONSTANTS, FITTED, LIMIT
from clustersim.simulate.transport_fit.experiment import Experiment

OnProgress = Callable[[float, str], None]

_STEP = 1e-4
_NEAR = 1e-3  # a constant within this share of a limit is at the limit


@dataclass(frozen=True)
class Solution:
    """Values of the free constants, their standard errors if they have any, and their states."""

    values: Mapping[str, float]
    errors: Mapping[str, float | None]
    states: Mapping[str, str]

    def relative_error(self, key: str) -> float:
        """Return the standard error as a share of the value; 0 without a standard error."""
        return (self.errors[key] or 0.0) / self.values[key]


class FitProblem:
    """The least-squares problem of a fit.

    Unknowns are the constants in units of their values in the sheet, and the inverse of the efficiency: times are
    linear in these as long as the same ranks finish last.
    """

    def __init__(self, points: Sequence[Experiment], start: Transport, equal_sources: bool, on_progress: OnProgress):
        self.points, self.start, self.on_progress = points, start, on_progress
        self._calls = 0
        self._measured_s = np.array([point.measured_s for point in points])
        each = [point.source for point in points]
        share = [1.0 / each.count(name) if equal_sources else 1.0 for name in each]
        self._roots = np.sqrt(np.array(share) * len(share) / sum(share))
        self.before_s = self.simulated_s(start)

    def simulated_s(self, transport: Transport) -> np.ndarray:
        """Return the simulated times [num_points]."""
        times = np.array([point.simulate(transport) for point in self.points])
        for point, time_s in zip(self.points, times.tolist(), strict=True):
            if not 0 < time_s < math.inf:
                place = f"{point.source}:{point.line}"
                raise SimulationError(f"{place}: the simulated time of {point.what} must be above 0 (got {time_s:g} s)")
        return times

    def with_values(self, values: Mapping[str, float]) -> Transport:
        """Return the transport with these constants in place of those of its sheet."""
        changes: dict[str, Any] = dict(values)
        return replace(self.start, **changes)

    def effect(self, key: str) -> np.ndarray:
        """Return the relative change of each time [num_points] if the constant is halved."""
        changes: np.ndarray = self.simulated_s(self.with_values({key: 0.5 * self._scale(key)})) / self.before_s - 1.0
        return changes

    def solve(self, free: Sequence[str]) -> Solution:
        """Return the least squares of these constants; all others keep the values of the sheet."""
        if not free:
            return Solution({}, {}, {})
        from scipy.optimize import least_squares

        ends = [(self._unknown(key, CONSTANTS[key].least), self._unknown(key, CONSTANTS[key].most)) for key in free]
        lower, upper = np.min(ends, axis=1), np.max(ends, axis=1)
        found = least_squares(
            partial(self._errors, free),
            np.clip(np.ones(len(free)), lower, upper),
            bounds=(lower, upper),
            method="dogbox",
            diff_step=[_STEP] * len(free),
            ftol=1e-6,
            xtol=1e-6,
        )
        inside = (found.x > lower + _NEAR) & (found.x < upper * (1.0 - _NEAR))
        x = np.where(inside, found.x, np.where(found.x > lower + _NEAR, upper, lower))
        values = self._values(free, x)
        deviations = standard_errors(np.asarray(found.jac)[:, inside], 2.0 * float(found.cost))
        errors: dict[str, float | None] = dict.fromkeys(free)
        for number, deviation in zip(np.flatnonzero(inside).tolist(), deviations, strict=True):
            share = None if deviation is None else deviation / float(x[number])
            errors[free[number]] = None if share is None else share * values[free[number]]
        states = {key: FITTED if within else LIMIT for key, within in zip(free, inside, strict=True)}
        return Solution(values, errors, states)

    def _unknown(self, key: str, value: float) -> float:
        """Return a constant as an unknown."""
        return self._scale(key) / value if key == "efficiency" else value / self._scale(key)

    def _values(self, free: Sequence[str], x: np.ndarray) -> dict[str, float]:
        """Return unknowns [num_free] as constants."""
        pairs = zip(free, x.tolist(), strict=True)
        return {key: self._scale(key) / each if key == "efficiency" else self._scale(key) * each for key, each in pairs}

    def _scale(self, key: str) -> float:
        return float(getattr(self.start, key)) or CONSTANTS[key].small

    def _errors(self, free: Sequence[str], x: np.ndarray) -> np.ndarray:
        """Return the weighted relative errors [num_points] for unknowns [num_free]."""
        self._calls += 1
        self.on_progress(1.0 - 0.9**self._calls, f"fitting {', '.join(free)}")
        times = self.simulated_s(self.with_values(self._values(free, x)))
        weighted: np.ndarray = self._roots * (times / self._measured_s - 1.0)
        return weighted


def standard_errors(jacobian: np.ndarray, squares: float) -> list[float | None]:
    """Return the standard error of the constants whose derivatives are the columns [num_points, num_constants].

    The root of the diagonal of s^2 (J' J)^-1 with s^2 = `squares` / (num_points - num_constants). None if there are no
    more points than constants; infinite if columns are linearly dependent, so that only a combination of the constants
    is determined.

    >>> [round(error, 6) for error in standard_errors(np.ones((5, 1)), squares=4.0)]
    [0.447214]
    """
    num_points, num_constants = jacobian.shape
    norms = np.linalg.norm(jacobian, axis=0)
    if num_constants and (not norms.all() or np.linalg.cond(jacobian / norms) > 1e6):
        return [math.inf] * num_constants
    if num_points <= num_constants:
        return [None] * num_constants
    scaled = jacobian / norms
    covariance = np.linalg.inv(scaled.T @ scaled) * squares / (num_points - num_constants)
    return [float(error) for error in np.sqrt(np.diag(covariance)) / norms]
