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
_NEAR = 1e-9
_GRADIENT = 1e-6
_STEP = 1e-4
"""Change of the factor, and of the fixed time as a share of the iteration, that gives a derivative."""

_ALIKE = 0.05
"""Sine of the angle between the effects of a factor and of a fixed time below which runs do not tell them apart.

One percent in a figure would then move the fixed time by a fifth of an iteration.
"""

TOO_ALIKE = (
    "the measured runs have nearly the same work in an iteration, so they cannot tell a fixed time from slower "
    "kernels: only a factor was found"
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
    sine = float(np.sqrt(max(0.0, 1.0 - _cosine(_derivatives(ratios, start, scale_s)) ** 2)))
    if sine < _ALIKE:
        return Found(_least_squares(ratios, scale_s, fixed=False)[0], TOO_ALIKE)
    both, wants_less = _least_squares(ratios, scale_s, fixed=True)
    return Found(both, NEGATIVE if wants_less else "")


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


def _derivatives(ratios: Ratios, x: np.ndarray, scale_s: float) -> np.ndarray:
    """Return the derivatives of ratios by the factor and by the fixed time in units of `scale_s` [num_runs, 2]."""
    here = _at(ratios, x, scale_s)
    columns = [(_at(ratios, x + step, scale_s) - here) / _STEP for step in _STEP * np.eye(2)]
    return np.stack(columns, axis=1)


def _at(ratios: Ratios, x: np.ndarray, scale_s: float) -> np.ndarray:
    return ratios(Anchoring(float(x[0]), float(x[1]) * scale_s))


def _cosine(jacobian: np.ndarray) -> float:
    norms = np.linalg.norm(jacobian, axis=0)
    if not norms.all():
        return 1.0
    return float(jacobian[:, 0] @ jacobian[:, 1] / norms.prod())


def _least_squares(ratios: Ratios, scale_s: float, fixed: bool) -> tuple[Anchoring, bool]:
    """Return the factor, and the fixed time if `fixed`, with the least squares of ratio - 1.

    The fixed time is not below 0; the second value says whether the squares would be less below.
    """
    from scipy.optimize import least_squares

    num = 2 if fixed else 1

    def at(x: np.ndarray) -> np.ndarray:
        return np.array([x[0], x[1] if fixed else 0.0])

    def errors(x: np.ndarray) -> np.ndarray:
        return _at(ratios, at(x), scale_s) - 1.0

    def slopes(x: np.ndarray) -> np.ndarray:
        return _derivatives(ratios, at(x), scale_s)[:, :num]

    found = least_squares(
        errors,
        np.array([1.0, 0.0])[:num],
        jac=slopes,
        bounds=(np.array([LEAST, 0.0])[:num], np.array([MOST, np.inf])[:num]),
        method="dogbox",
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
        gtol=_TOLERANCE,
    )
    factor, share = at(found.x).tolist()
    if not LEAST + _NEAR < factor < MOST - _NEAR:
        far = f"{LEAST:g} times as long as estimated, or less" if factor < 1 else f"{MOST:g} times as long, or more"
        message = (
            f"the measured runs ask for kernels that take {far}: check the figures, and that the runs are the "
            "scenario's (`set` states what differed)"
        )
        raise InputError(message, got=f"{factor:.3g}", allowed=f"a factor of {LEAST:g} to {MOST:g}")
    if share > _NEAR:
        return Anchoring(factor, share * scale_s), False
    gradient = np.asarray(found.jac).T @ found.fun  # `found.grad` is 0 at a bound
    return Anchoring(factor), bool(fixed and gradient[1] > _GRADIENT)
