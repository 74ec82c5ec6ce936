"""Finds the factor on kernels, and the fixed time of an iteration, with which forecasts are as measured.

Pure functions of forecasts: each gives, for a factor and a fixed time, the forecast time of every measured run divided
by the measured one. That ratio grows with both, at most in proportion, and bends where communication is hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from clustersim.errors import InputError
from clustersim.model.layer import Anchoring

Ratios = Callable[[Anchoring], np.ndarray]
"""Returns forecast / measured time of each run [num_runs]."""

LEAST, MOST = 0.2, 5.0
"""Factors outside are no error of kernels: the figure, or the scenario, is another training's."""

_TOLERANCE = 1e-12
_MOST_STEPS = 100
_STEP = 1e-4
"""Change of the factor, and of the fixed time as a share of the iteration, that gives a derivative."""

_ALIKE = 0.05
"""Sine of the angle between the effects of a factor and of a fixed time below which runs do not tell them apart.

One percent in a figure would then move the fixed time by a fifth of an iteration.
"""

TOO_ALIKE = (
    "the measured runs have nearly the same work in an iteration, so they cannot tell a fixed time from slower kernels: "
    "only a factor was found"
)
NEGATIVE = "a fixed time of an iteration would be negative by the measured runs: only a factor was found"


class Found(NamedTuple):
    """A factor and a fixed time, and why there is no fixed time although there are several runs; or nothing."""

    anchoring: Anchoring
    note: str = ""


def fit(ratios: Ratios, iterations_s: np.ndarray) -> Found:
    """Return what makes all ratios 1, or their differences from 1 least in squares.

    One run gives a factor, several give a fixed time as well. `iterations_s` [num_runs] are the forecast iterations.
    """
    if len(iterations_s) == 1:
        return Found(Anchoring(root(lambda factor: float(ratios(Anchoring(factor))[0]))))
    start, scale_s = np.array([1.0, 0.0]), float(iterations_s.min())
    jacobian, _ = _derivatives(ratios, start, scale_s)
    sine = float(np.sqrt(max(0.0, 1.0 - _cosine(jacobian) ** 2)))
    if sine < _ALIKE:
        return Found(_least_squares(ratios, scale_s, fixed=False), TOO_ALIKE)
    both = _least_squares(ratios, scale_s, fixed=True)
    if both.fixed_s < 0:
        return Found(_least_squares(ratios, scale_s, fixed=False), NEGATIVE)
    return Found(both)


def root(ratio: Callable[[float], float]) -> float:
    """Return the factor at which a ratio that grows with it is 1.

    >>> round(root(lambda factor: 0.25 + 0.5 * factor), 9), round(root(lambda factor: max(0.8, 0.9 * factor)), 9)
    (1.5, 1.111111111)
    """
    from scipy.optimize import brentq

    @cache
    def above(factor: float) -> float:
        difference = ratio(factor) - 1.0
        return difference if abs(difference) > _TOLERANCE else 0.0

    if not above(1.0):
        return 1.0
    bound = LEAST if above(1.0) > 0 else MOST
    if above(bound) * above(1.0) > 0:
        raise _out_of_reach(bound, 1.0 + above(bound))
    return float(brentq(above, min(1.0, bound), max(1.0, bound), xtol=1e-14))


def _out_of_reach(factor: float, ratio: float) -> InputError:
    quick = "quicker" if factor < 1 else "slower"
    times = 1 / factor if factor < 1 else factor
    message = (
        f"with kernels {times:g} times {quick} than estimated, the forecast still takes {ratio:.3g} times as long as "
        "this run: check the figure, and that the run is the scenario's (`set` states what differed)"
    )
    return InputError(message, allowed=f"a factor of {LEAST:g} to {MOST:g}")


def _derivatives(ratios: Ratios, x: np.ndarray, scale_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivatives of ratios by the factor and by the fixed time in units of `scale_s` [n, 2], and ratios."""
    here = _at(ratios, x, scale_s)
    columns = [(_at(ratios, x + step, scale_s) - here) / _STEP for step in _STEP * np.eye(2)]
    return np.stack(columns, axis=1), here


def _at(ratios: Ratios, x: np.ndarray, scale_s: float) -> np.ndarray:
    return ratios(Anchoring(float(x[0]), float(x[1]) * scale_s))


def _cosine(jacobian: np.ndarray) -> float:
    norms = np.linalg.norm(jacobian, axis=0)
    if not norms.all():
        return 1.0
    return float(jacobian[:, 0] @ jacobian[:, 1] / norms.prod())


def _least_squares(ratios: Ratios, scale_s: float, fixed: bool) -> Anchoring:
    """Return the factor, and the fixed time if `fixed`, with the least squares of ratio - 1, by Gauss-Newton steps.

    A negative fixed time is returned as it is; the ratios it would have are extrapolated from 0.
    """
    x = np.array([1.0, 0.0])
    for _ in range(_MOST_STEPS):
        inside = np.maximum(x, [_STEP, 0.0])
        jacobian, here = _derivatives(ratios, inside, scale_s)
        residuals = here + jacobian @ (x - inside) - 1.0
        free = jacobian if fixed else jacobian[:, :1]
        step = -np.linalg.lstsq(free, residuals, rcond=None)[0]
        step = np.clip(step, -0.5 * max(1.0, x[0]), 2.0 * max(1.0, x[0]))
        x[: len(step)] += step
        x[0] = max(x[0], _STEP)
        if float(np.abs(step).max()) <= _TOLERANCE * 100 or x[0] > 10 * MOST:
            break
    factor = float(x[0])
    if not LEAST <= factor <= MOST:
        message = (
            f"the measured runs ask for kernels that take {factor:.3g} times as long as estimated: check the figures, and "
            "that the runs are the scenario's (`set` states what differed)"
        )
        raise InputError(message, got=f"{factor:.3g}", allowed=f"a factor of {LEAST:g} to {MOST:g}")
    return Anchoring(factor, float(x[1]) * scale_s)
